"""Verification: compares a program with the model, and finds the operator that differs."""
