"""Exports by a trace: torch's old exporter, with the same ladder and verification."""
