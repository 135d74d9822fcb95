"""Opgraft for PyTorch: operators in eager mode, and exports that no missing operator stops."""

from __future__ import annotations
