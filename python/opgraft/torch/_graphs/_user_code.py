"""Finds where functions of the user are defined, to name them in errors."""

from __future__ import annotations

import functools
import traceback
from types import CodeType
from typing import Any

_OURS = __name__.partition(".")[0]


def written(function: Any) -> str:
    """Returns, for example, "my_module.my_function (my_module.py, line 3)"; empty for a function of
    Opgraft."""
    own = _innermost(function)
    module = str(getattr(own, "__module__", "") or type(own).__module__)
    if module == _OURS or module.startswith(f"{_OURS}."):
        return ""
    name = getattr(own, "__qualname__", None) or type(own).__qualname__
    code = _code(own)
    where = f" ({code.co_filename}, line {code.co_firstlineno})" if code is not None else ""
    return f"{module}.{name}{where}"


def line_raised(function: Any, error: BaseException) -> str:
    """Returns, for example, " in line 5" if a function raised the error there; empty if unknown."""
    code = _code(_innermost(function))
    lines = [
        number
        for frame, number in traceback.walk_tb(error.__traceback__)
        if code is not None and frame.f_code is code
    ]
    return f" in line {lines[-1]}" if lines else ""


def _innermost(function: Any) -> Any:
    """Unwraps a function: decorators, functools.partial, onnxscript's class for functions."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif hasattr(function, "function_ir"):
            function = function.function
        else:
            return function


def _code(function: Any) -> CodeType | None:
    call = function if hasattr(function, "__code__") else vars(type(function)).get("__call__")
    code = getattr(call, "__code__", None)
    return code if isinstance(code, CodeType) else None
