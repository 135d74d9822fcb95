"""All names of skl2onnx that are not public and that Opgraft uses, each guarded."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import skl2onnx

from opgraft._errors import UnavailableError

# Conversions change tables of skl2onnx's for a while: one at a time.
_lock = threading.RLock()

_STANDARD_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft")


def find(module: str, name: str) -> Any:
    """`name` of a module of skl2onnx's, or an error that names what moved."""
    try:
        return getattr(importlib.import_module(f"skl2onnx.{module}"), name)
    except (ImportError, AttributeError):
        raise UnavailableError(
            f"skl2onnx {skl2onnx.__version__} has no skl2onnx.{module}.{name}, which "
            "opgraft.sklearn needs; use skl2onnx 1.20, with which it is tested, or a newer Opgraft"
        ) from None


@contextmanager
def any_version_of_other_domains() -> Iterator[dict[str, int]]:
    """Converters may add nodes of domains that onnx does not know, in any version.

    skl2onnx takes their version for 1. Gives the versions that nodes were added with, by domain.
    """
    container = find("common._container", "ModelComponentContainer")
    versions: dict[str, int] = {}
    with _lock:
        add_node: Callable[..., None] = container.add_node

        def add(
            self: Any,
            op_type: str,
            inputs: Any,
            outputs: Any,
            op_domain: str = "",
            op_version: int | None = None,
            name: str | None = None,
            **attrs: Any,
        ) -> None:
            if op_domain is not None and op_domain not in _STANDARD_DOMAINS:
                is_targeted = op_domain in (getattr(self, "target_opset_all", None) or {})
                if op_version is not None and not is_targeted:
                    versions[op_domain] = max(versions.get(op_domain, 1), op_version)
                    op_version = 1
            add_node(self, op_type, inputs, outputs, op_domain, op_version, name, **attrs)

        container.add_node = add
        try:
            yield versions
        finally:
            container.add_node = add_node
