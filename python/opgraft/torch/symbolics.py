"""The symbolic functions of the operators that Opgraft ships: exports write these as one node each.

>>> opgraft.torch.symbolics.register()  # torch.inverse becomes com.microsoft::Inverse, and so on

They hold for exports by Opgraft; for those by torch.onnx.export with opgraft.torch.compat imported.
Whoever adds an operator to ops/ adds its function here, and a test. The tests are run by

    python -m pytest -v tests/torch/test_symbolics.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.onnx import symbolic_helper, symbolic_opset9, symbolic_opset14, symbolic_opset20

from opgraft._errors import Error
from opgraft.torch import _needed, _private

_needed.need_to_export(__name__)

from opgraft.torch._symbolic import (  # noqa: E402
    register_custom_op_symbolic,
    unregister_custom_op_symbolic,
)

__all__ = ["SYMBOLICS", "register", "register_custom_op", "unregister", "unregister_custom_op"]

#: The version of com.microsoft that the operators are there from.
_VERSION = 1


def inverse(g: Any, self: Any) -> Any:
    return g.op("com.microsoft::Inverse", self).setType(self.type())


@symbolic_helper.parse_args("v", "s")
def gelu(g: Any, self: Any, approximate: str = "none") -> Any:
    if approximate == "none":
        return g.op("com.microsoft::Gelu", self).setType(self.type())
    standard = symbolic_opset20 if g.opset >= 20 else symbolic_opset9
    return standard.gelu(g, self, approximate)


def triu(g: Any, self: Any, diagonal: Any) -> Any:
    return _trilu(g, self, diagonal, upper=1)


def tril(g: Any, self: Any, diagonal: Any) -> Any:
    return _trilu(g, self, diagonal, upper=0)


def _trilu(g: Any, self: Any, diagonal: Any, upper: int) -> Any:
    # Of these ONNX Runtime has kernels for ONNX's own operator alone.
    if _private.dtype_of_value(self) in (torch.int32, torch.bool):
        standard = symbolic_opset14.triu if upper else symbolic_opset14.tril
        return standard(g, self, diagonal)
    node = g.op("com.microsoft::Trilu", self, diagonal, upper_i=upper)
    return node.setType(self.type())


#: By the names of the operators of torch.
SYMBOLICS: dict[str, Callable[..., Any]] = {
    "aten::inverse": inverse,
    "aten::gelu": gelu,
    "aten::triu": triu,
    "aten::tril": tril,
}


def register() -> None:
    """Has exports write these operators as nodes of com.microsoft."""
    for name, function in SYMBOLICS.items():
        register_custom_op_symbolic(name, function, _VERSION)


def unregister() -> None:
    """Takes back what `register` has said."""
    for name in SYMBOLICS:
        unregister_custom_op_symbolic(name, _VERSION)


def register_custom_op(is_ortmodule: bool = False) -> None:
    """`register`, by the name it has in ONNX Runtime's register_custom_ops_pytorch_exporter."""
    if is_ortmodule:
        raise Error("register_custom_op: ORTModule's operators are not among Opgraft's")
    register()


unregister_custom_op = unregister
