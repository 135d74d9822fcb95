"""GPUs: the execution provider, and the arrays of operators that run on a GPU."""
