"""The list of operators that ATen nodes may run is what torch's schemas give, and was read."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="ATen nodes need torch")

import aten_operators  # noqa: E402

LIST = Path(__file__).resolve().parents[2] / "src" / "aten" / "operators.inc"


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="the list is that of 2.13")
def test_the_list_is_up_to_date() -> None:
    written = io.StringIO()
    with redirect_stdout(written):
        aten_operators.main()
    assert written.getvalue() == LIST.read_text()


def test_nothing_on_the_list_writes_to_its_arguments() -> None:
    lines = LIST.read_text().splitlines()[2:]
    assert len(lines) > 1000
    for line in lines:
        schema = line[2:-3]
        arguments = schema.split(" -> ")[0]
        assert "!" not in arguments, schema
        name = schema.split("(")[0].partition(".")[0]
        assert not name.endswith("_") or name.startswith("__"), schema


def test_no_operator_of_the_list_is_unsafe_by_name() -> None:
    """Files, storage, quantization, other devices; what is called unsafe but is not, is named."""
    harmless = {"unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"}
    harmless |= {"_unsafe_view", "_unsafe_index"}
    for line in LIST.read_text().splitlines()[2:]:
        if line[1] == "!":
            continue
        name = line[2:].split("(")[0].partition(".")[0]
        for word in (
            "file",
            "storage",
            "quantize",
            "mkldnn",
            "cudnn",
            "unsafe",
            "backward",
            "pin_",
        ):
            assert word not in name or name in harmless, line
        assert "Storage" not in line
        assert "Stream" not in line
