"""Runs the Python nodes of exported models: operators that Python code, or a library that Python
loads, registered with torch.

A session that runs such a model must allow this module and the module that defines the operator, or
the operator itself if no Python module defines it.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import torch

from opgraft._base._errors import PolicyError, UnavailableError
from opgraft._run._torch_arrays import from_array, to_array
from opgraft.torch import _private
from opgraft.torch._rungs._aten_text import Arguments


class TorchOperator:
    """Runs `torch.ops.<operator>.<overload_name>`. `arguments` and `results` are written as in an
    ATen node (docs/aten.md). `defined_in` is the module to import first. `changes` names the
    arguments that the operator writes to; their new values follow its results.

    torch's own C++ operators are refused: a model may only run them as ATen nodes, for which there
    is a list of operators.
    """

    #: The bridge asks the host's policy about the module that this argument names or, if it is
    #: empty, about the operator.
    module_argument = "defined_in"
    operator_argument = "operator"
    copy_inputs = True  # it may write to them

    def __init__(
        self,
        operator: str,
        arguments: str,
        results: str,
        overload_name: str = "",
        defined_in: str = "",
        changes: Sequence[str] = (),
        encoding: int = 1,
    ) -> None:
        del results  # the runtime reads the same from the node's 'output_types'
        if encoding != 1:
            raise UnavailableError(
                f"{operator}: its arguments are written in encoding {encoding}, but this version "
                "of opgraft reads encoding 1. Fix: install a newer one"
            )
        if defined_in:
            importlib.import_module(defined_in)
        self._operator = _private.find_operator(operator, overload_name)
        if self._operator is None:
            raise UnavailableError(
                f"torch has no operator {operator}"
                + (f".{overload_name}" if overload_name else "")
                + (
                    f" after the import of '{defined_in}'"
                    if defined_in
                    else ", and the model does not say which module defines it. Fix: name the "
                    'module, InferenceSession(..., imports=["..."])'
                )
            )
        if _private.is_torchs_own(self._operator):
            raise PolicyError(
                f"{operator} is one of torch's own C++ operators, which a Python node may not run"
            )
        if defined_in and not _private.is_defined_in(self._operator, defined_in):
            # The host allowed a module, but another module's code would run.
            home = _private.defining_module(self._operator)
            raise PolicyError(
                f"{operator} is defined in "
                + (f"the Python module '{home}'" if home else "a library")
                + f", but the model says '{defined_in}'. Fix: export the model again"
            )
        self._arguments = Arguments(arguments, operator)
        self._changes = list(changes)
        self._names = [one.name for one in _private.schema_of(self._operator)[0]]

    def compute(self, *inputs: Any) -> Any:
        tensors = [None if one is None else from_array(one) for one in inputs]
        args, kwargs = self._arguments.bind(tensors)
        named = {**dict(zip(self._names, args, strict=False)), **kwargs}
        with torch.no_grad():
            results = self._operator(**named)
        flat = [*_flatten(results), *(named[name] for name in self._changes)]
        return to_array(flat[0]) if len(flat) == 1 else tuple(map(to_array, flat))


def _flatten(results: Any) -> list[Any]:
    if isinstance(results, (list, tuple)):
        return [one for result in results for one in _flatten(result)]
    return [] if results is None else [results]
