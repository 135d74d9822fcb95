"""Runs an export: tries one way after another until a program is right."""
