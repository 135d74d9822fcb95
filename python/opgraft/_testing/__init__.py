"""OpTester: runs one case of an operator in every relevant way."""
