"""Captures a model: arguments, open sizes, guards, state, and the examples to verify with."""
