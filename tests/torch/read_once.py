"""A fixture for tests that export: torch reads all of its functions once, not for each export."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

_read: dict[int, Any] = {}


@pytest.fixture(scope="module", autouse=True)
def functions_read_once() -> Iterator[None]:
    """Reading them takes more time than a small export. It works where it is imported."""
    registration = pytest.importorskip("torch.onnx._internal.exporter._registration")
    registry = registration.ONNXRegistry
    original = registry.__dict__["from_torchlib"]

    def from_torchlib(cls: Any, opset_version: int = 18) -> Any:
        if opset_version not in _read:
            _read[opset_version] = original.__func__(cls, opset_version)
        copy = cls()
        copy._opset_version = opset_version
        copy.functions = {name: list(all) for name, all in _read[opset_version].functions.items()}
        return copy

    registry.from_torchlib = classmethod(from_torchlib)
    yield
    registry.from_torchlib = original
