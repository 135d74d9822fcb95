"""The ladder for operators that torch's exporter lacks: one module for each rung."""
