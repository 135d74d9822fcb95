"""The program of an export: the choice for each operator, the result and its report."""
