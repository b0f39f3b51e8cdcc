"""Experiments that are too long for a cell: one function each. They seed themselves and print nothing."""
