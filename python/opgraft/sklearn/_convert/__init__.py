"""Converting estimators: what is native, what is a Python node, and whether it is right."""
