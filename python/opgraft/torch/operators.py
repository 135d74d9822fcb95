"""What Python nodes of exported models run: operators that are registered with torch from Python,
or from a library that Python loads.

A session that runs such a model allows this module, and the one that defines the operator, or the
operator itself where no Python module defines it.
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
    """Runs `torch.ops.<operator>.<overload_name>`; `arguments` and `results` are written as those
    of an ATen node (docs/aten.md). `defined_in` is the module to import first. `changes` names the
    arguments that it writes to: what it wrote is given behind its results.

    Operators that torch itself has in C++ are refused: which of them a model may run is said for
    ATen nodes.
    """

    #: Opgraft's bridge asks the host's policy for the module that this argument names, and where it
    #: is empty for the operator.
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
        del results  # 'output_types' of the node tells the runtime the same
        if encoding != 1:
            raise UnavailableError(
                f"{operator}: its arguments are written in encoding {encoding}; this opgraft reads "
                "encoding 1. Install a newer one"
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
                    else "; the model does not say which module defines it: import it first, "
                    'InferenceSession(..., imports=["..."])'
                )
            )
        if _private.is_torchs_own(self._operator):
            raise PolicyError(
                f"{operator} is an operator of torch's own in C++, which a Python node does not run"
            )
        if defined_in and not _private.is_defined_in(self._operator, defined_in):
            # What was allowed is not what would run.
            home = _private.defining_module(self._operator)
            raise PolicyError(
                f"{operator} is defined in "
                + (f"the Python module '{home}'" if home else "a library")
                + f", but the model says in '{defined_in}'; export the model again"
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
