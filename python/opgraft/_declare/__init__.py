"""Operators declared in Python: their schemas, their shape rules, and registering them in onnx."""
