"""Graphs of torch operators, and small functions that every part of an export uses."""
