"""Opgraft operators in torch: eager calls, shapes, gradients."""
