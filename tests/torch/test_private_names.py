"""Private names of torch: in one package, and a clear error where one has moved."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402
from opgraft.torch import _private  # noqa: E402

FOLDER = Path(__file__).resolve().parents[2] / "python" / "opgraft" / "torch"
X = torch.rand(3)


def private_uses(path: Path) -> Iterator[str]:
    """`torch._x`, `from torch._x import y` and `"torch._x"` in a source."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            parts: list[str] = [node.attr]
            value: Any = node.value
            while isinstance(value, ast.Attribute):
                parts.append(value.attr)
                value = value.value
            if isinstance(value, ast.Name) and value.id == "torch":
                names = [part for part in parts if part.startswith("_") and part[:2] != "__"]
                yield from (f"torch.{name}" for name in names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            names = [*(node.module or "").split("."), *(one.name for one in node.names)]
            yield from (f"{node.module}: {name}" for name in names if name.startswith("_"))
        elif isinstance(node, ast.Import):
            for one in node.names:
                if one.name.startswith("torch") and "._" in one.name:
                    yield one.name


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.name)
def test_one_package_has_them(path: Path) -> None:
    if path.parent.name != "_private":
        assert list(private_uses(path)) == []


def test_the_search_finds_some() -> None:
    assert "torch._ops" in set(private_uses(FOLDER / "_private" / "operators.py"))


MOVED = [
    ("torch.onnx._internal.exporter._core", "_exported_program_to_onnx_program"),
    ("torch.onnx._internal.exporter._core", "_prepare_exported_program_for_export"),
    ("torch.onnx._internal.exporter._dispatching", "dispatch"),
    ("torch.onnx._internal.exporter._registration", "ONNXRegistry"),
    ("torch.onnx._internal.exporter._capture_strategies", "TorchExportNonStrictStrategy"),
    ("torch.onnx._internal.exporter._flags", "_is_onnx_exporting"),
    ("torch.onnx._internal.exporter._dynamic_shapes", "convert_str_to_export_dim"),
    ("torch.onnx._internal.exporter._ir_passes", "rename_inputs"),
]


@pytest.mark.parametrize(("module", "name"), MOVED)
def test_one_that_has_moved_is_named(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the version of torch, and what to do."""
    home = _private.private(module)
    _private.private.cache_clear()
    monkeypatch.delattr(home, name)
    try:
        with pytest.raises(opgraft.UnavailableError) as raised:
            opgraft.torch.export(torch.lgamma, (X,), input_names=["x"])
    finally:
        monkeypatch.undo()
        _private.private.cache_clear()
    assert name in str(raised.value) and torch.__version__ in str(raised.value)
    assert "Fix: install torch" in str(raised.value)


def test_all_is_well_again() -> None:
    """What a name that is missing did to one export is over with the next."""
    assert opgraft.torch.export(torch.lgamma, (X,)).report.verified
