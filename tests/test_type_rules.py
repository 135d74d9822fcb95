"""Compares the table of types (src/model/type_rules.inc) with onnx.defs."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import type_rules

TABLE = Path(__file__).resolve().parents[1] / "src" / "model" / "type_rules.inc"


@pytest.mark.skipif(
    not onnx.__version__.startswith(type_rules.ONNX + "."),
    reason=f"the table was read from onnx {type_rules.ONNX}",
)
def test_the_table_is_what_onnx_defs_tells() -> None:
    """If this fails: python tests/type_rules.py > src/model/type_rules.inc."""
    assert TABLE.read_text() == type_rules.table()
