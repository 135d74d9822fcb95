"""A part of bench/torch_coverage.py: one entry of each family of PyTorch's operator database."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")
pytest.importorskip(
    "expecttest", reason="torch's operator database needs it: pip install expecttest"
)

BENCH = Path(__file__).resolve().parents[2] / "bench" / "torch_coverage.py"

#: What each becomes.
ENTRIES = {
    "add": "standard",
    "nn.functional.conv2d": "standard",
    "linalg.svd": "aten",  # linear algebra
    "special.airy_ai": "function",  # special functions
    "kthvalue": "function",  # sorting, scans, histograms
    "nn.functional.adaptive_max_pool2d": "function",  # layers
    "masked_select": "function",  # indexing, and a shape that depends on data
    "nextafter": "function",  # element by element
    "linalg.eigvals": "aten",  # complex numbers
    "cov": "function",  # whose shape torch.export does not know
    "nn.functional.batch_norm": "aten",  # which torch's exporter gets wrong
    "lgamma": "function",
    "uniform": "function",  # random
    "linalg.inv": "pack",
    "nn.functional.linear_cross_entropy.chunked": "python",
    "equal": None,  # beyond reach: a Python bool
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("coverage")
    names = folder / "names"
    names.write_text("\n".join(ENTRIES))
    found = folder / "results"
    command = [sys.executable, str(BENCH), "--names", str(names), "--results", str(found)]
    done = subprocess.run(
        [*command, "--sample", "first", "--cpp"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in found.read_text().splitlines()]
    return {"printed": done.stdout, **{row["name"]: row for row in rows}}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_of_each_family(name: str, results: dict[str, Any]) -> None:
    kind = ENTRIES[name]
    row = results[name]
    if kind is None:
        assert row["outcome"] == "error" and "cannot capture" in row["reason"]
        return
    assert row["outcome"] == "right", row
    assert row["kind"] == kind, row
    assert row.get("cpp", "right") == "right", row
    assert ("cpp" in row) is (kind == "aten")


def test_the_table(results: dict[str, Any]) -> None:
    lines = results["printed"].splitlines()
    assert lines[0].split()[:3] == ["sample", "entries", "right"]
    counts = lines[1].split()
    assert counts[:3] == ["first", str(len(ENTRIES)), str(len(ENTRIES) - 1)]
    expected = [
        list(ENTRIES.values()).count(kind)
        for kind in ("standard", "function", "pack", "aten", "python")
    ]
    assert list(map(int, counts[3:])) == expected
    assert any(line.startswith("error: equal (first): ModelError") for line in lines)
