"""What torch has removed from its exporter: OnnxRegistry, dynamo_export, symbolic functions."""
