"""Serve the built book on this computer and open it in a browser: `python -m tools.serve [PORT]`."""

import functools
import http.server
import sys
import webbrowser
from pathlib import Path

HTML = Path(__file__).parents[1] / "_build" / "html"
FIRST_PORT = 8000


def open_server(port: int | None = None) -> http.server.ThreadingHTTPServer:
    """Return a server of the built book, reachable from this computer only.

    Args:
        port: None takes the first free one from 8000 on.

    Raises:
        FileNotFoundError: the book has not been built.
        OSError: the port is in use.
    """
    if not (HTML / "index.html").exists():
        raise FileNotFoundError(f"no built book at {HTML}: run `make book` first")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(HTML))
    for candidate in [port] if port is not None else [*range(FIRST_PORT, FIRST_PORT + 20), 0]:
        try:
            return http.server.ThreadingHTTPServer(("127.0.0.1", candidate), handler)
        except OSError:
            if port is not None:
                raise
    raise OSError(f"no free port from {FIRST_PORT} on")


def main() -> None:
    """Serve until interrupted."""
    server = open_server(int(sys.argv[1]) if len(sys.argv) > 1 else None)
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    print(f"The book is at {address} (stop with Ctrl-C)", flush=True)
    webbrowser.open(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    finally:
        server.server_close()


if __name__ == "__main__":
    main()
