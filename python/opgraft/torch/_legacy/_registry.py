"""OnnxRegistry: the onnxscript functions that replace torch operators in an export."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opgraft.torch import _private


@dataclass(frozen=True)
class ONNXFunction:
    """A function that replaces a torch operator."""

    onnx_function: Callable[..., Any]
    op_full_name: str  #: namespace::name.overload
    is_custom: bool = False  #: whether the user registered it; otherwise it is torch's
    is_complex: bool = False  #: whether it is for complex inputs


class OnnxRegistry:
    """The functions for an export: torch's own, and those that the user has registered.

    >>> registry = opgraft.torch.OnnxRegistry()
    >>> registry.is_registered_op(namespace="aten", op_name="gelu", overload="default")
    True
    """

    def __init__(self) -> None:
        self._registered: dict[str, list[ONNXFunction]] = {}

    @property
    def opset_version(self) -> int:
        """The ONNX opset of the exported models."""
        return _private.lowest_opset()

    def register_op(
        self,
        function: Callable[..., Any],
        namespace: str,
        op_name: str,
        overload: str | None = None,
        is_complex: bool = False,
    ) -> None:
        """Registers a function that replaces torch.ops.<namespace>.<op_name>.<overload>.

        It is an onnxscript function, or any function that calls onnxscript operators. If several
        are registered for an operator, the last one is used.
        """
        if not callable(function):
            raise TypeError(
                f"register_op: expected a function for {namespace}::{op_name}, not {function!r}"
            )
        name = _full_name(namespace, op_name, overload)
        registered = ONNXFunction(function, name, is_custom=True, is_complex=is_complex)
        self._registered.setdefault(name, []).append(registered)

    def get_op_functions(
        self, namespace: str, op_name: str, overload: str | None = None
    ) -> list[ONNXFunction] | None:
        """Returns the functions for an operator: torch's own first, then the registered ones. None
        if there are none."""
        name = _full_name(namespace, op_name, overload)
        own = [
            ONNXFunction(function, name, is_complex=is_complex)
            for function, is_complex in _private.own_translations().get(name, [])
        ]
        return [*own, *self._registered.get(name, [])] or None

    def is_registered_op(self, namespace: str, op_name: str, overload: str | None = None) -> bool:
        """Whether there is a function for torch.ops.<namespace>.<op_name>.<overload>."""
        return self.get_op_functions(namespace, op_name, overload) is not None

    def _all_registered_ops(self) -> set[str]:
        """Returns the names of all operators that have a function."""
        return {*_private.own_translations(), *self._registered}

    def translations(self, is_complex: bool = False) -> dict[Any, Callable[..., Any]]:
        """Returns a custom_translation_table of the registered functions, either those for complex
        inputs or the others."""
        table = {}
        for name, functions in self._registered.items():
            for function in functions:
                if function.is_complex is not is_complex:
                    continue
                target = _private.find_target(name)
                if target is None:
                    warnings.warn(
                        f"torch has no operator {name}: the function that the OnnxRegistry has "
                        "for it is not used",
                        stacklevel=3,
                    )
                else:
                    table[target] = _private.whole_function(function.onnx_function)
        return table


def _full_name(namespace: str, op_name: str, overload: str | None) -> str:
    for part in (namespace, op_name):
        if not part or "::" in part:
            raise ValueError(
                f"'{part}' is not a namespace or name of an operator; aten::add.Tensor has the "
                "namespace 'aten', the op_name 'add' and the overload 'Tensor'"
            )
    return f"{namespace}::{op_name}.{overload or 'default'}"


OnnxRegistry.__module__ = "opgraft.torch"  # where users find it
