"""Packs: `opgraft new`, `opgraft build` and `opgraft test`."""
