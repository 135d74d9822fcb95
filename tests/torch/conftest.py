"""What the tests of opgraft.torch share: exports that do not each read all of torch's functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def _torchs_functions_read_once() -> Iterator[None]:
    """Reading them takes more time than a small export."""
    registration = pytest.importorskip("torch.onnx._internal.exporter._registration")
    registry = registration.ONNXRegistry
    original = registry.__dict__["from_torchlib"]
    read: dict[int, Any] = {}

    def from_torchlib(cls: Any, opset_version: int = 18) -> Any:
        if opset_version not in read:
            read[opset_version] = original.__func__(cls, opset_version)
        copy = cls()
        copy._opset_version = opset_version
        copy.functions = {name: list(all) for name, all in read[opset_version].functions.items()}
        return copy

    registry.from_torchlib = classmethod(from_torchlib)
    yield
    registry.from_torchlib = original
