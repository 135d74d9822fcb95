"""`opgraft doctor`: what a model contains, what is missing, and how to fix it."""
