"""The ladder for operators that torch's exporter does not support: one module for each rung."""
