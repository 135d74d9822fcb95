"""What torch's exporter dropped: the registry, dynamo_export, symbolic functions."""
