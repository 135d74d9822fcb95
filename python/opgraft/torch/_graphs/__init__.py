"""Graphs of torch's operators, and small things that every part of an export uses."""
