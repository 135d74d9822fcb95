"""Checks whether a Python function is plain torch code: its result depends only on its arguments.

Such a function can be traced in place of the operator that it is the body of. If it reads anything
else (a dict, a file, the clock), the trace would freeze that.
"""

from __future__ import annotations

import builtins
import dis
import types
from collections.abc import Iterator
from typing import Any

import torch

from opgraft.torch import _private

_BUILTINS = frozenset(
    """ArithmeticError AssertionError False IndexError NotImplementedError None RuntimeError True
    TypeError ValueError abs all any bool dict divmod enumerate filter float int isinstance len list
    map max min pow range repr reversed round set slice sorted str sum tuple zip""".split()
)
_MODULES = ("torch", "math", "typing", "collections.abc")
#: Attributes that reveal how the function is run or where its arguments are stored, or that read
#: something other than the arguments.
_STATE = frozenset(
    """_version as_strided data_ptr from_file from_numpy get_default_dtype get_rng_state grad
    grad_fn initial_seed is_compiling is_contiguous is_dynamo_compiling is_fx_tracing
    is_grad_enabled is_in_onnx_export is_inference is_inference_mode_enabled is_scripting
    is_tracing load numpy requires_grad save seed storage storage_offset stride
    untyped_storage""".split()
)
_CONSTANTS = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout)


def impurity(function: Any) -> str:
    """A message on what the function does that plain torch code does not; empty if nothing."""
    return next(_impurities(function, set()), "")


def _impurities(function: Any, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    if not isinstance(function, types.FunctionType):
        yield f"it is a {type(function).__name__}, not a Python function"
        return
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield from _of_value("a default", value, seen)  # a list would persist between calls
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for code in _codes(function.__code__):
        for one in dis.get_instructions(code):
            name = one.argval if isinstance(one.argval, str) else ""
            if one.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") or (
                one.opname in ("STORE_DEREF", "DELETE_DEREF") and name in cells
            ):
                yield f"it writes to '{name}', which is not a local variable"
            elif one.opname == "IMPORT_NAME" and not _is_torchs(name):
                yield f"it imports {name}"
            elif one.opname in ("LOAD_ATTR", "LOAD_METHOD") and name in _STATE:
                yield f"it reads '{name}'"
            elif one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                yield from _of_global(name, function.__globals__, seen)
            elif one.opname in ("LOAD_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF") and name in cells:
                yield from _of_value(name, cells[name].cell_contents, seen)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)


def _of_global(name: str, known: dict[str, Any], seen: set[int]) -> Iterator[str]:
    if name in known:
        yield from _of_value(name, known[name], seen)
    elif name not in _BUILTINS:
        what = "a Python built-in" if hasattr(builtins, name) else "which is not defined"
        yield f"it uses '{name}', {what}"


def _of_value(name: str, value: Any, seen: set[int]) -> Iterator[str]:
    if isinstance(value, types.ModuleType):
        if not _is_torchs(value.__name__):
            yield f"it uses the module {value.__name__}"
    elif isinstance(value, torch.Tensor):
        yield f"it uses '{name}', a tensor that is not an argument"
    elif isinstance(value, (tuple, frozenset)):
        for one in value:
            yield from _of_value(name, one, seen)
    elif (
        isinstance(value, _CONSTANTS)
        or _private.is_operator(value)
        or (_is_torchs(str(getattr(value, "__module__", None))) and not _is_instance(value))
    ):
        return
    elif isinstance(value, types.FunctionType):
        yield from _impurities(value, seen)
    elif getattr(builtins, name, None) is value and name in _BUILTINS:
        return
    else:
        yield f"it uses '{name}', a {type(value).__name__}"


def _is_instance(value: Any) -> bool:
    return not isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and type(
        value
    ).__module__ not in ("typing", "types")


def _is_torchs(module: str) -> bool:
    return any(module == one or module.startswith(f"{one}.") for one in _MODULES)
