"""Side-by-side measurements against other implementations: `make bench`. Nothing that the book needs imports this."""
