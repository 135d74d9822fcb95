"""Converts estimators: decides which steps are native or Python nodes, and verifies the result."""
