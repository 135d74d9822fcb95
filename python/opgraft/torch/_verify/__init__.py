"""Verification: whether a program gives what the model gives, and who is to blame if not."""
