"""Python operators as onnxruntime-extensions writes them: change the import, and they run here.

>>> from opgraft.extensions import PyCustomOpDef, get_library_path, onnx_op

`@onnx_op` is a second spelling of `@opgraft.op`: it states the types in lists, where `@opgraft.op`
reads them from annotations. docs/extensions.md says what differs from onnxruntime-extensions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from opgraft import _pyop
from opgraft._base._errors import Error
from opgraft._declare import _declare, _signature

__all__ = [
    "Opdef",
    "PyCustomOpDef",
    "PyOp",
    "default_opset_domain",
    "get_library_path",
    "onnx_op",
]

_DOMAIN = _pyop.EXTENSIONS_DOMAIN


class PyCustomOpDef:
    """The element types: ONNX's numbers, by the names of onnxruntime-extensions."""

    undefined = 0  #: any type; for inputs only
    dt_float = 1
    dt_uint8 = 2
    dt_int8 = 3
    dt_uint16 = 4
    dt_int16 = 5
    dt_int32 = 6
    dt_int64 = 7
    dt_string = 8
    dt_bool = 9
    dt_float16 = 10
    dt_double = 11
    dt_uint32 = 12
    dt_uint64 = 13
    dt_complex64 = 14
    dt_complex128 = 15
    dt_bfloat16 = 16


PyOp = PyCustomOpDef  # the second name that onnxruntime-extensions has for it

_TYPE_NAMES = {
    number: f"PyCustomOpDef.{name}"
    for name, number in vars(PyCustomOpDef).items()
    if isinstance(number, int)
}
#: The kinds of attributes, and the annotations that @opgraft.op has for them.
_ATTRIBUTES: dict[int, type] = {
    PyCustomOpDef.dt_int64: int,
    PyCustomOpDef.dt_float: float,
    PyCustomOpDef.dt_string: str,
}


class Opdef:
    """What `@onnx_op` returns: the function, which can still be called, and its operator's name."""

    def __init__(self, op_type: str, body: Callable[..., Any]) -> None:
        self.op_type = op_type
        self.body = body
        functools.update_wrapper(self, body)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.body(*args, **kwargs)

    @staticmethod
    def declare(
        *,
        op_type: str | None = None,
        inputs: Sequence[int] | None = None,
        outputs: Sequence[int] | None = None,
        attrs: Sequence[str] | Mapping[str, int] | None = None,
    ) -> Callable[[Callable[..., Any]], Opdef]:
        """Declares a function as the operator `op_type`, which may be "domain::Name".

        Without a domain it is one of "ai.onnx.contrib"; without a name it has the function's.
        `inputs` and `outputs` list the element types, one `dt_float` unless they are given. `attrs`
        maps the attributes to `dt_int64`, `dt_float` or `dt_string`; a list has strings alone. The
        function gets the inputs as arrays of its own, and the attributes by keyword.

        >>> @opgraft.extensions.onnx_op(op_type="PyReverseMatrix")
        ... def reverse_matrix(x):
        ...     return np.flip(x, axis=0).astype(np.float32)
        """

        def declare(function: Callable[..., Any]) -> Opdef:
            return Opdef.create(
                function, op_type=op_type, inputs=inputs, outputs=outputs, attrs=attrs
            )

        return declare

    @staticmethod
    def create(
        func: Callable[..., Any],
        *,
        op_type: str | None = None,
        inputs: Sequence[int] | None = None,
        outputs: Sequence[int] | None = None,
        attrs: Sequence[str] | Mapping[str, int] | None = None,
    ) -> Opdef:
        """Does the same as `onnx_op`, without a decorator."""
        if not callable(func):
            raise Error(f"onnx_op: expected a function, not {func!r}")
        made = Opdef(op_type or str(getattr(func, "__name__", "")), func)
        name = made.op_type if "::" in made.op_type else f"{_DOMAIN}::{made.op_type}"
        default = [PyCustomOpDef.dt_float]
        output_types = default if outputs is None else list(outputs)
        signature = _signature.Signature(attributes=_attributes(name, attrs or {}))
        for index, number in enumerate(default if inputs is None else inputs):
            what = f"x{index}"
            signature.inputs.append(_parameter(name, f"input '{what}'", what, number, signature))
        for index, number in enumerate(output_types):
            what = f"y{index}"
            where = f"output '{what}'"
            if number == PyCustomOpDef.undefined:
                raise Error(
                    f"{name} cannot be declared: {where} is PyCustomOpDef.undefined, expected a "
                    "type such as dt_float"
                )
            signature.outputs.append(_parameter(name, where, what, number, signature))
        converted = _converting(func, output_types)
        # Their operators own their inputs, and may write to them.
        _declare.declare_as(name, converted, signature, copy_inputs=True)
        return made


onnx_op = Opdef.declare


def get_library_path() -> str:
    """Returns the library for `register_custom_ops_library` of a plain session's options.

    It knows the operators that are declared when it is registered. An `opgraft.InferenceSession`
    does not need it.

    >>> sess_options.register_custom_ops_library(opgraft.extensions.get_library_path())
    """
    return str(_pyop.__file__)


def default_opset_domain() -> str:
    """Returns the domain of operators whose `op_type` has none.

    >>> opgraft.extensions.default_opset_domain()
    'ai.onnx.contrib'
    """
    return _DOMAIN


def _parameter(
    name: str, where: str, own_name: str, number: int, signature: _signature.Signature
) -> _pyop.Parameter:
    if number != PyCustomOpDef.undefined and number not in _signature.ELEMENT_TYPES.values():
        carried = [_TYPE_NAMES[n] for n in _signature.ELEMENT_TYPES.values() if n in _TYPE_NAMES]
        raise Error(
            f"{name} cannot be declared: {where} is {_TYPE_NAMES.get(number, repr(number))}, which "
            f"ONNX Runtime does not support; expected one of {', '.join(carried)}"
        )
    allowed = [] if number == PyCustomOpDef.undefined else [number]
    index = len(signature.types)
    signature.types.append(_pyop.TypeVariable(f"T{index}", allowed, bool(allowed)))
    return _pyop.Parameter(own_name, _signature.REQUIRED, index)


def _attributes(name: str, attrs: Sequence[str] | Mapping[str, int]) -> list[_signature.Attribute]:
    if isinstance(attrs, str):
        raise Error(f"{name}: expected attrs to be a list of names, [{attrs!r}], not a text")
    kinds = attrs if isinstance(attrs, Mapping) else dict.fromkeys(attrs, PyCustomOpDef.dt_string)
    for attribute, number in kinds.items():
        if number not in _ATTRIBUTES:
            raise Error(
                f"{name} cannot be declared: attribute '{attribute}' is "
                f"{_TYPE_NAMES.get(number, repr(number))}, expected dt_int64, dt_float or dt_string"
            )
    return [_signature.scalar_attribute(one, _ATTRIBUTES[kind]) for one, kind in kinds.items()]


def _converting(function: Callable[..., Any], types: Sequence[int]) -> Callable[..., Any]:
    """Returns the function with results of the declared types, as onnxruntime-extensions has it."""
    dtypes = [_signature.dtype_of(number) for number in types]

    def convert(result: Any, index: int) -> Any:
        array, dtype = np.asarray(result), dtypes[index]
        if array.dtype == dtype or dtype.kind == "O":
            return result
        if array.dtype.kind in "OUSc":
            return result  # not a number: an error, which the core reports
        with np.errstate(all="ignore"):
            converted = array.astype(dtype)
        if dtype.kind in "biu" and not np.array_equal(converted, array):
            raise TypeError(
                f"output {index} is declared as {_TYPE_NAMES[types[index]]}, but the operator "
                f"returned {array.dtype.name} with values that {dtype.name} does not have. Fix: "
                f"round them, as in np.round(y).astype(np.{dtype.name}), or declare another type"
            )
        return converted

    @functools.wraps(function)
    def converted(*inputs: Any, **attributes: Any) -> Any:
        result = function(*inputs, **attributes)
        if len(dtypes) == 1 and not (isinstance(result, tuple) and len(result) == 1):
            return convert(result, 0)
        if not isinstance(result, (tuple, list)) or len(result) != len(dtypes):
            return result  # the wrong number of outputs, which the core reports
        return tuple(map(convert, result, range(len(dtypes))))

    return converted
