"""Operators of ours in torch: eager calls, shapes, gradients."""
