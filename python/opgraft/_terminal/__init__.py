"""What the command and reports show on a terminal. Only this package imports rich, when needed."""
