"""The report as one HTML page: the graph drawn, with who runs each node."""
