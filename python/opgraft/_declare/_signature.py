"""Reads the schema of an operator from the signature of a Python function."""

from __future__ import annotations

import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, Union

import numpy as np

from opgraft import _pyop
from opgraft._base._errors import Error

REQUIRED, OPTIONAL, VARIADIC = range(3)  # opgraft::Occurrence

#: ONNX's numbers of the element types that ONNX Runtime supports, by their names in NumPy and
#: ml_dtypes.
ELEMENT_TYPES = {one.name: one.number for one in _pyop.ELEMENT_TYPES if one.is_carried}

#: The numbers of the element types that arrays on a GPU support.
GPU_TYPES = [one.number for one in _pyop.ELEMENT_TYPES if one.is_carried and one.has_dlpack]
_Alias: Any = getattr(typing, "TypeAliasType", None)  # Python 3.12 and newer
#: The classes of arrays on a GPU, by module. A module that annotations use is already imported.
_GPU_ARRAYS = {"torch": "Tensor", "cupy": "ndarray"}

# AttributeProto.AttributeType, and the Python types that stand for it.
FLOAT, INT, STRING, TENSOR, FLOATS, INTS, STRINGS = 1, 2, 3, 4, 6, 7, 8
_SCALARS = {bool: INT, int: INT, float: FLOAT, str: STRING, bytes: STRING}
_LISTS = {bool: INTS, int: INTS, float: FLOATS, str: STRINGS, bytes: STRINGS}
_LARGEST_FLOAT = float(np.finfo(np.float32).max)
_EXPECTED = "int, float, bool, str, bytes, a list or tuple of these, or numpy.ndarray"


@dataclass(frozen=True)
class Attribute:
    """An attribute in the form that the function takes; the schema has the form in models."""

    name: str
    kind: int  # a number of AttributeProto.AttributeType
    #: Converts the value in the model to the annotated type.
    convert: Callable[[Any], Any]
    default: Any = inspect.Parameter.empty
    is_bool: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def parameter(self) -> _pyop.AttributeParameter:
        default = None if self.is_required else self.default
        if self.kind == TENSOR and default is not None:
            default = _as_models_hold(default)
        return _pyop.AttributeParameter(
            self.name, self.kind, self.is_required, default, self.is_bool
        )


def scalar_attribute(name: str, annotation: type) -> Attribute:
    """Returns a required attribute of a type such as int."""
    return Attribute(name, _SCALARS[annotation], _converter(annotation))


@dataclass
class Signature:
    """The contents of a declaration, collected while it is read."""

    inputs: list[_pyop.Parameter] = field(default_factory=list)
    outputs: list[_pyop.Parameter] = field(default_factory=list)
    types: list[_pyop.TypeVariable] = field(default_factory=list)
    attributes: list[Attribute] = field(default_factory=list)
    takes_out: bool = False
    #: The library of arrays on a GPU that the annotations name: "torch", "cupy", or "".
    arrays: str = ""


class _Reader:
    def __init__(self, name: str, on_gpu: bool = False) -> None:
        self.name = name
        self.on_gpu = on_gpu
        self.signature = Signature()
        self._variables: dict[TypeVar, int] = {}

    def refuse(self, what: str) -> Error:
        return Error(f"{self.name} cannot be declared: {what}")

    def add_type(self, allowed: list[int], is_tied: bool) -> int:
        if self.on_gpu and not allowed:
            allowed = GPU_TYPES
        index = len(self.signature.types)
        self.signature.types.append(_pyop.TypeVariable(f"T{index}", allowed, is_tied))
        return index

    # Arrays.

    def element_types(self, scalar: Any, where: str) -> list[int]:
        """Returns the element types of a NumPy scalar type; an abstract one has several."""
        if scalar in (Any, np.generic):
            return []
        if self.on_gpu:
            return self._gpu_types(scalar, where)
        return self._element_types(scalar, where)

    def _gpu_types(self, scalar: Any, where: str) -> list[int]:
        if type(scalar).__module__ == "torch":  # such as torch.bfloat16, which NumPy lacks
            found = [ELEMENT_TYPES.get(str(scalar).removeprefix("torch."), -1)]
        else:
            found = self._element_types(scalar, where)
        for number in found:
            if number not in GPU_TYPES:
                name = next((one for one, n in ELEMENT_TYPES.items() if n == number), scalar)
                raise self.refuse(f"{where} is an array of {name}, which GPUs do not support")
        return found

    def _element_types(self, scalar: Any, where: str) -> list[int]:
        if _is_union(scalar):
            return [n for one in typing.get_args(scalar) for n in self.element_types(one, where)]
        if scalar in (np.str_, np.object_, str):
            return [ELEMENT_TYPES["string"]]
        if not isinstance(scalar, type):
            raise self.refuse(
                f"{where} is an array of {scalar!r}, expected a type such as np.int64"
            )
        if scalar in (np.number, np.integer, np.signedinteger, np.unsignedinteger, np.floating):
            concrete = [np.dtype(code).type for code in "bBhHiIlLqQefd"]
            found = {np.dtype(one).name for one in concrete if issubclass(one, scalar)}
            return [number for name, number in ELEMENT_TYPES.items() if name in found]
        try:
            name = np.dtype(scalar).name
        except TypeError:
            name = getattr(scalar, "__name__", repr(scalar))
        if name not in ELEMENT_TYPES:
            raise self.refuse(
                f"{where} is an array of {name}, which ONNX Runtime does not support; expected one "
                f"of {', '.join(ELEMENT_TYPES)}"
            )
        return [ELEMENT_TYPES[name]]

    def variable(self, variable: TypeVar, where: str) -> int:
        if variable not in self._variables:
            options = variable.__constraints__ or (variable.__bound__ or np.generic,)
            allowed: list[int] = []
            for option in map(_without_aliases, options):
                inner = _scalar_of(option)
                found = self.element_types(option if inner is None else inner, where)
                if not found:
                    allowed = []
                    break
                allowed += found
            self._variables[variable] = self.add_type(list(dict.fromkeys(allowed)), True)
        return self._variables[variable]

    def array(self, annotation: Any, where: str) -> int | None:
        """Returns the index of the type of an annotated array; None if any type is allowed."""
        if self.on_gpu:
            annotation = self._on_host(annotation)
        if annotation in (inspect.Parameter.empty, np.ndarray, Any):
            return None
        if isinstance(annotation, TypeVar):
            return self.variable(annotation, where)
        scalar = _scalar_of(annotation)
        if _is_union(annotation):
            scalars = [_scalar_of(part) for part in typing.get_args(annotation)]
            scalar = None if None in scalars else Union[tuple(scalars)]  # noqa: UP007
        if scalar is None:
            raise self.refuse(
                f"{where} is annotated as {_text(annotation)}, expected numpy.ndarray or "
                "numpy.typing.NDArray[...]"
                + (', or device="cuda" for arrays on a GPU' if _library_of(annotation) else "")
            )
        if isinstance(scalar, TypeVar):
            return self.variable(scalar, where)
        allowed = self.element_types(scalar, where)
        # A single type is the same everywhere. If several are allowed, each array chooses its own.
        return self.add_type(allowed, len(allowed) == 1) if allowed else None

    def _on_host(self, annotation: Any) -> Any:
        """Returns NumPy's annotation for that of an array on a GPU, and records its library."""
        types_within: tuple[Any, ...] = ()
        if typing.get_origin(annotation) is typing.Annotated:
            annotation, *rest = typing.get_args(annotation)
            types_within = tuple(one for one in rest if not isinstance(one, str))
        library = _library_of(annotation)
        if not library:
            return annotation
        if self.signature.arrays not in ("", library):
            raise self.refuse(f"it mixes arrays of {self.signature.arrays} and of {library}")
        self.signature.arrays = library
        if not types_within:
            return np.ndarray
        return types.GenericAlias(np.ndarray, (Any, types.GenericAlias(np.dtype, types_within[:1])))

    # Parameters.

    def input(self, parameter: inspect.Parameter, annotation: Any) -> None:
        where = f"input '{parameter.name}'"
        occurrence = REQUIRED
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            occurrence = VARIADIC
        elif _is_union(annotation) and type(None) in typing.get_args(annotation):
            occurrence = OPTIONAL
            annotation = _without_none(annotation)
            if parameter.default is not None:
                raise self.refuse(f"{where} is optional, so it must have the default None")
        elif parameter.default is None:
            occurrence = OPTIONAL
        elif parameter.default is not inspect.Parameter.empty:
            raise self.refuse(
                f"{where} has the default {parameter.default!r}; expected no default, or None. Is "
                f"'{parameter.name}' an attribute? Then write it after a '*', as a keyword-only "
                "parameter"
            )
        if annotation in (*_SCALARS, list, tuple) or typing.get_origin(annotation) in (list, tuple):
            raise self.refuse(
                f"{where} is annotated as {_text(annotation)}, expected numpy.ndarray. For an "
                "attribute write it after a '*', as a keyword-only parameter"
            )
        type_index = self.array(annotation, where)
        if type_index is None:
            type_index = self.add_type([], False)
        self.signature.inputs.append(_pyop.Parameter(parameter.name, occurrence, type_index))

    def output(self, name: str, annotation: Any, occurrence: int) -> None:
        where = f"output '{name}'"
        inputs = self.signature.inputs
        type_index = self.array(annotation, where)
        if type_index is None:
            if not inputs:
                raise self.refuse(
                    f"{where} is a bare numpy.ndarray, which has the type of the first input, but "
                    "there is no input; write its type, as in numpy.typing.NDArray[numpy.float32]"
                )
            type_index = inputs[0].type
        allowed = self.signature.types[type_index].allowed
        if len(allowed) != 1 and not any(one.type == type_index for one in inputs):
            raise self.refuse(
                f"{where} is annotated as {_text(annotation)}, which does not say which type it "
                "has: use one type, or a TypeVar that an input has as well"
            )
        self.signature.outputs.append(_pyop.Parameter(name, occurrence, type_index))

    def outputs(self, annotation: Any) -> None:
        if annotation in (None, type(None)):
            return
        if typing.get_origin(annotation) is not tuple:
            if annotation is tuple:
                raise self.refuse(
                    "it returns a tuple; name its items: tuple[np.ndarray, np.ndarray]"
                )
            return self.output("y", annotation, REQUIRED)
        parts = typing.get_args(annotation)
        if len(parts) == 2 and parts[1] is Ellipsis:
            return self.output("y", parts[0], VARIADIC)
        for index, part in enumerate(parts):
            self.output(f"y{index}", part, REQUIRED)

    def attribute(self, parameter: inspect.Parameter, annotation: Any) -> None:
        where = f"attribute '{parameter.name}'"
        default = parameter.default
        if annotation is inspect.Parameter.empty:
            if default in (None, inspect.Parameter.empty):
                raise self.refuse(f"{where} has no annotation; expected {_EXPECTED}")
            annotation = type(default)
            if annotation in (list, tuple) and len({type(one) for one in default}) == 1:
                annotation = annotation[type(default[0])]
        if _is_union(annotation) and type(None) in typing.get_args(annotation):
            annotation = _without_none(annotation)
            if default is inspect.Parameter.empty:
                raise self.refuse(f"{where} may be None, so it must have the default None")
        kind, convert, is_bool = self._attribute_kind(annotation, where)
        is_given = default is not None and default is not inspect.Parameter.empty
        if is_given and not _is_value(kind, annotation, default):
            raise self.refuse(
                f"{where} is annotated as {_text(annotation)}, but its default is {default!r}"
            )
        self.signature.attributes.append(Attribute(parameter.name, kind, convert, default, is_bool))

    def _attribute_kind(
        self, annotation: Any, where: str
    ) -> tuple[int, Callable[[Any], Any], bool]:
        """Returns the kind, the converter for values in the model, and whether they are bools."""
        if annotation in _SCALARS:
            return _SCALARS[annotation], _converter(annotation), annotation is bool
        if annotation is np.ndarray or _scalar_of(annotation) is not None:
            return TENSOR, lambda value: value, False
        origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
        is_list = isinstance(origin, type) and issubclass(origin, (list, tuple, typing.Sequence))
        if is_list and parts and parts[0] in _LISTS and set(parts[1:]) <= {Ellipsis, parts[0]}:
            convert = _converter(parts[0])
            container = tuple if origin is tuple else list
            return (
                _LISTS[parts[0]],
                lambda values: container(map(convert, values)),
                parts[0] is bool,
            )
        raise self.refuse(f"{where} is annotated as {_text(annotation)}, expected {_EXPECTED}")


def read(
    function: Callable[..., Any],
    name: str,
    scope: Mapping[str, Any],
    *,
    is_method: bool,
    on_gpu: bool = False,
) -> Signature:
    """Reads the schema from the signature of a function, or of a method without self.

    Names in annotations are looked up in `scope` and in the function's module.
    """
    reader = _Reader(name, on_gpu)
    parameters, annotations = _parameters(reader, function, scope, is_method)
    arrays = _hints(reader, function, scope, include_extras=True) if on_gpu else annotations
    for parameter in parameters:
        annotation = annotations.get(parameter.name, inspect.Parameter.empty)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            raise reader.refuse(
                f"'**{parameter.name}' takes attributes of any name; an operator must name each one"
            )
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            reader.input(parameter, arrays.get(parameter.name, inspect.Parameter.empty))
        elif parameter.name == "out":
            reader.signature.takes_out = True
        else:
            reader.attribute(parameter, annotation)
    inputs = reader.signature.inputs
    occurrences = [one.occurrence for one in inputs]
    if OPTIONAL in occurrences and VARIADIC in occurrences:
        raise reader.refuse(
            "it has optional inputs and variadic ones ('*'), which cannot be told apart"
        )
    reader.outputs(arrays.get("return", inspect.Parameter.empty))
    return reader.signature


def read_attributes(
    function: Callable[..., Any], name: str, scope: Mapping[str, Any]
) -> list[Attribute]:
    """Reads the attributes from the parameters of a class's __init__."""
    reader = _Reader(name)
    parameters, annotations = _parameters(reader, function, scope, True)
    for parameter in parameters:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise reader.refuse(f"'{parameter}' of __init__ takes anything; name each attribute")
        reader.attribute(parameter, annotations.get(parameter.name, inspect.Parameter.empty))
    return reader.signature.attributes


def _parameters(
    reader: _Reader, function: Callable[..., Any], scope: Mapping[str, Any], is_method: bool
) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    if not isinstance(function, (types.FunctionType, types.MethodType)):
        raise reader.refuse(
            f"{function!r} is not a Python function with a signature. Fix: wrap it, "
            "def operator(x: np.ndarray) -> np.ndarray: ..."
        )
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise reader.refuse("it is a coroutine or a generator, which does not return an array")
    parameters = list(inspect.signature(function).parameters.values())
    annotations = _hints(reader, function, scope)
    return parameters[1:] if is_method else parameters, annotations


def _hints(
    reader: _Reader,
    function: Callable[..., Any],
    scope: Mapping[str, Any],
    include_extras: bool = False,
) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(function, localns=dict(scope), include_extras=include_extras)
    except Exception as error:
        raise reader.refuse(f"its annotations cannot be read: {error}") from error
    return {name: _without_aliases(hint) for name, hint in hints.items()}


def _without_aliases(annotation: Any) -> Any:
    """Resolves aliases by `type X = ...` in an annotation or a part of it.

    NumPy's NDArray is such an alias in NumPy 2.5 and newer.
    """
    if _Alias is None:
        return annotation
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, _Alias):
        return _without_aliases(annotation.__value__)
    if isinstance(origin, _Alias):
        return _without_aliases(origin.__value__[parts])
    if _is_union(annotation):
        return Union[tuple(map(_without_aliases, parts))]  # noqa: UP007 - made at run time
    if origin in (list, tuple):
        return origin[tuple(map(_without_aliases, parts))]
    if origin is typing.Annotated:
        inner = (_without_aliases(parts[0]), *parts[1:])
        return typing.Annotated[inner]
    return annotation


def _library_of(annotation: Any) -> str:
    """Returns the library whose array class the annotation is, or ""."""
    for module, name in _GPU_ARRAYS.items():
        if module in sys.modules and annotation is getattr(sys.modules[module], name, None):
            return module
    return ""


def dtype_of(element_type: int) -> np.dtype[Any]:
    """Returns the dtype for ONNX's element type."""
    name = next(name for name, number in ELEMENT_TYPES.items() if number == element_type)
    if name == "string":
        return np.dtype(object)
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype


def _as_models_hold(array: Any) -> Any:
    """Converts an array to the form in models: str, or numbers in this machine's byte order."""
    if array.dtype.kind not in "US":
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    texts = np.array([os.fsdecode(one) for one in array.flat], object)
    return texts.reshape(array.shape)


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (Union, types.UnionType)


def _without_none(annotation: Any) -> Any:
    parts = tuple(part for part in typing.get_args(annotation) if part is not type(None))
    return Union[parts]  # noqa: UP007 - made at run time


def _scalar_of(annotation: Any) -> Any:
    """Returns the scalar type of `NDArray[scalar]`, or None for any other annotation."""
    if typing.get_origin(annotation) is not np.ndarray:
        return None
    dtype = typing.get_args(annotation)[-1]
    if typing.get_origin(dtype) is np.dtype:
        return typing.get_args(dtype)[0]
    return dtype if isinstance(dtype, TypeVar) else np.generic


def _converter(scalar: type) -> Callable[[Any], Any]:
    if scalar is bytes:
        return lambda value: value.encode() if isinstance(value, str) else value
    if scalar is str:
        return _decoded
    return scalar


def _decoded(value: Any) -> Any:
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Error(
            f"{value!r} is not valid UTF-8. Fix: annotate the attribute as bytes"
        ) from error


def _is_value(kind: int, annotation: Any, value: Any) -> bool:
    """Whether an ONNX attribute of this kind and annotation can hold the value."""
    if kind == TENSOR:
        if not isinstance(value, np.ndarray):
            return False
        return value.dtype.name in ELEMENT_TYPES or value.dtype.kind in "US"
    if kind in (FLOATS, INTS, STRINGS):
        scalar = typing.get_args(annotation)[0]
        is_list = isinstance(value, (list, tuple))
        return is_list and all(_is_scalar(scalar, one) for one in value)
    return _is_scalar(annotation, value)


def _is_scalar(scalar: type, value: Any) -> bool:
    if scalar is float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and not (abs(value) > _LARGEST_FLOAT and abs(value) != float("inf"))
    if scalar is int:
        return isinstance(value, int) and -(2**63) <= value < 2**63
    if scalar is str and isinstance(value, str):
        return not any("\ud800" <= sign <= "\udfff" for sign in value)
    return isinstance(value, scalar)


def _text(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
