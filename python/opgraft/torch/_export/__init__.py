"""The export: one way after the other, until one gives a program that is right."""
