"""OnnxRegistry: which function of onnxscript stands for which operator of torch in an export."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opgraft.torch import _private


@dataclass(frozen=True)
class ONNXFunction:
    """A function that stands for an operator of torch."""

    onnx_function: Callable[..., Any]
    op_full_name: str  #: namespace::name.overload
    is_custom: bool = False  #: whether it was registered, or is torch's own
    is_complex: bool = False  #: whether it is for complex inputs


class OnnxRegistry:
    """The functions of an export: torch's own, and those that are registered.

    >>> registry = opgraft.torch.OnnxRegistry()
    >>> registry.is_registered_op(namespace="aten", op_name="gelu", overload="default")
    True
    """

    def __init__(self) -> None:
        self._registered: dict[str, list[ONNXFunction]] = {}

    @property
    def opset_version(self) -> int:
        """The opset of ONNX that exports are written in."""
        return _private.lowest_opset()

    def register_op(
        self,
        function: Callable[..., Any],
        namespace: str,
        op_name: str,
        overload: str | None = None,
        is_complex: bool = False,
    ) -> None:
        """Lets a function stand for torch.ops.<namespace>.<op_name>.<overload>.

        It is one of onnxscript, or any that calls operators of onnxscript. Of several for one
        operator the last counts.
        """
        if not callable(function):
            raise TypeError(
                f"register_op: a function is needed for {namespace}::{op_name}, not {function!r}"
            )
        name = _full_name(namespace, op_name, overload)
        registered = ONNXFunction(function, name, is_custom=True, is_complex=is_complex)
        self._registered.setdefault(name, []).append(registered)

    def get_op_functions(
        self, namespace: str, op_name: str, overload: str | None = None
    ) -> list[ONNXFunction] | None:
        """The functions for an operator: torch's own first, then the registered ones. None where
        there are none."""
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
        """The names of all operators that have a function."""
        return {*_private.own_translations(), *self._registered}

    def translations(self, is_complex: bool = False) -> dict[Any, Callable[..., Any]]:
        """A custom_translation_table of the functions that were registered, for complex inputs or
        for others."""
        table = {}
        for name, functions in self._registered.items():
            for function in functions:
                if function.is_complex is not is_complex:
                    continue
                target = _private.find_target(name)
                if target is None:
                    warnings.warn(
                        f"torch has no operator {name}, for which the OnnxRegistry has a "
                        "function: it is not used",
                        stacklevel=3,
                    )
                else:
                    table[target] = _private.whole_function(function.onnx_function)
        return table


def _full_name(namespace: str, op_name: str, overload: str | None) -> str:
    for part in (namespace, op_name):
        if not part or "::" in part:
            raise ValueError(
                f"'{part}' is no part of an operator's name; aten::add.Tensor has the namespace "
                "'aten', the op_name 'add' and the overload 'Tensor'"
            )
    return f"{namespace}::{op_name}.{overload or 'default'}"


OnnxRegistry.__module__ = "opgraft.torch"  # where users find it
