"""Calls a symbolic function in the torch.export exporter: its nodes become nodes of ONNX."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir
import torch

from opgraft import _pyop
from opgraft._base._errors import Error
from opgraft.torch import _private

_LAST_IN_SCRIPT = 15  # c10's number of bfloat16; TorchScript's exporter does not know later types
#: The torch types that symbolic functions know, by ONNX type.
DTYPES = {
    ir.DataType(one.number): getattr(torch, one.name)
    for one in _pyop.ELEMENT_TYPES
    if one.number and 0 <= one.torch_number <= _LAST_IN_SCRIPT
}
_MEMORY_FORMATS = [
    "torch.contiguous_format",
    "torch.preserve_format",
    "torch.channels_last",
    "torch.channels_last_3d",
]


def translation(symbolic: Callable[..., Any], overload: Any) -> Callable[..., Any]:
    """Makes an entry of a custom_translation_table from a symbolic function.

    The function gets the same as from TorchScript: a real graph, and a value for each argument of
    the operator's schema. So all of torch.onnx.symbolic_helper works.
    """

    def translate(*args: Any, **kwargs: Any) -> Any:
        recorder = _private.recorder()
        opset = min(recorder.opset.version, _private.default_opsets()[1])
        call = _Call(_private.ScriptGraph(opset))
        arguments = call.arguments(overload, args, kwargs)
        outputs = call.run(symbolic, _fitting(symbolic, overload, arguments), overload)
        nodes, values = call.nodes(outputs)
        recorder.nodes.extend(nodes)
        recorder.functions.update(call.functions)
        is_list = _private.returns_of(overload) == ["List[Tensor]"] and call.gave_several
        return values if is_list or len(values) > 1 else values[0]

    translate.__name__ = str(overload).replace(".", "_")
    translate.__dict__["__wrapped__"] = symbolic
    return translate


class _Argument:
    """An argument of a call: its value in the script graph, and whether that is the default."""

    def __init__(self, value: Any, is_default: bool) -> None:
        self.value = value
        self.is_default = is_default


def _fitting(symbolic: Callable[..., Any], overload: Any, given: Sequence[_Argument]) -> list[Any]:
    """Returns the arguments for the function. It may be older than some arguments of the operator,
    which are left out if they have their default values."""
    most, least = _counts_of_parameters(symbolic)
    count = len(given)
    while count > most and given[count - 1].is_default:
        count -= 1
    if not least <= count <= most:
        raise Error(
            f"the symbolic function '{getattr(symbolic, '__name__', symbolic)}', which is "
            f"registered for {overload}, takes {'at least ' if count < least else ''}"
            f"{least if count < least else most} arguments besides g, but this call has {count}; "
            f"the schema of the operator is {_private.schema_text(overload)}"
        )
    return [argument.value for argument in given[:count]]


def _counts_of_parameters(function: Callable[..., Any]) -> tuple[float, int]:
    """Returns how many arguments a symbolic function takes besides `g`: at most, and at least."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return float("inf"), 0
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    by_place = [one for one in parameters if one.kind in places]
    required = [one for one in by_place if one.default is one.empty]
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return float("inf"), max(len(required) - 1, 0)
    # torch itself passes `_outputs` by name.
    by_place = [one for one in by_place if one.name != "_outputs"]
    return len(by_place) - 1, max(len(required) - 1, 0)


class _Call:
    """One call of a symbolic function."""

    def __init__(self, graph: _private.ScriptGraph) -> None:
        self._graph = graph
        #: The values of the ONNX graph that the inputs of the script graph represent.
        self._inputs: list[ir.Value] = []
        self._seen: dict[ir.Value, Any] = {}
        self.gave_several = False
        #: The onnxscript functions that the nodes call, by identifier.
        self.functions: dict[tuple[str, str, str], Any] = {}

    def arguments(
        self, overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[_Argument]:
        """Returns all arguments of the operator, in the order of its schema, as in TorchScript."""
        made = []
        for index, (name, kind, default) in enumerate(_private.parameters_of(overload)):
            is_given = index < len(args) or name in kwargs
            given = args[index] if index < len(args) else kwargs.get(name, default)
            value = self._value(_as_script_has_it(given, kind))
            made.append(_Argument(value, not is_given or _is_same(given, default)))
        return made

    def run(self, symbolic: Callable[..., Any], arguments: list[Any], overload: Any) -> list[Any]:
        outputs = self._graph.call(symbolic, arguments)
        for function in self._graph.functions:
            self.functions.update(_private.called_functions(function))
        self.gave_several = self._graph.gave_several
        for output in outputs:
            if output is not None and not self._graph.is_value(output):
                raise Error(
                    f"the symbolic function '{getattr(symbolic, '__name__', symbolic)}', which is "
                    f"registered for {overload}, returned {output!r}, not a result of g.op"
                )
        expected = len(_private.returns_of(overload))
        is_list = _private.returns_of(overload) == ["List[Tensor]"]
        if len(outputs) != expected and not is_list:
            raise Error(
                f"the symbolic function '{getattr(symbolic, '__name__', symbolic)}', which is "
                f"registered for {overload}, returned {len(outputs)} values, but the operator "
                f"returns {expected}; return None for a value that is not used"
            )
        return outputs

    def _value(self, given: Any) -> Any:
        if given is None:
            return self._graph.none()
        if isinstance(given, ir.Value):
            return self._input(given)
        if isinstance(given, (list, tuple)):
            return self._list(given)
        return self._graph.constant(given if isinstance(given, str) else _tensor(given))

    def _list(self, given: Sequence[Any]) -> Any:
        if any(isinstance(one, ir.Value) or one is None for one in given):
            # Tensors, or sizes that are not all known.
            is_sizes = any(isinstance(one, int) for one in given) or all(map(_is_size, given))
            kind = "Ints" if is_sizes else "Tensors"
        elif any(isinstance(one, str) for one in given):
            kind = "Strings"
        else:
            return self._graph.constant(_tensor(given))
        return self._graph.sequence([self._value(one) for one in given], kind)

    def _input(self, given: ir.Value) -> Any:
        if given not in self._seen:
            dtype = None if given.dtype is None else DTYPES.get(given.dtype)
            self._seen[given] = self._graph.input(dtype, _shape(given))
            self._inputs.append(given)
        return self._seen[given]

    def nodes(self, outputs: Sequence[Any]) -> tuple[list[ir.Node], list[ir.Value]]:
        """Returns the nodes that the call has added, and the values of its outputs."""
        given = [output for output in outputs if output is not None]
        model = onnx.load_model_from_string(self._graph.to_onnx(given))
        graph = ir.serde.deserialize_model(model).graph
        results = list(graph.outputs)
        nodes = list(graph)
        for node in nodes:
            node.name = None
            for value in node.outputs:
                # The exporter sets the names and types in the graph that they are added to.
                value.name = value.type = value.shape = None
        replaced = dict(zip(graph.inputs, self._inputs, strict=True))
        graph.outputs.clear()
        for stand_in, value in replaced.items():
            stand_in.replace_all_uses_with(value)
        graph.remove(nodes)
        values: list[ir.Value] = []
        for result in results:
            value = replaced.get(result, result)
            # The exporter renames the outputs, so that each must be a value of its own.
            if result in replaced or value in values:
                nodes.append(ir.Node("", "Identity", [value]))
                value = nodes[-1].outputs[0]
            values.append(value)
        filled = iter(values)
        # Nothing computes an output that is left out: it must not be used.
        return nodes, [ir.Value() if one is None else next(filled) for one in outputs]


def _as_script_has_it(given: Any, kind: str) -> Any:
    """Returns an argument with torch's numbers for types and memory formats instead of ONNX's."""
    if "ScalarType" in kind and given is not None:
        if given == -1:
            return None
        if given not in DTYPES:
            raise Error(f"symbolic functions do not support the type {ir.DataType(given).name}")
        return _private.number_in_script(DTYPES[given])
    if "MemoryFormat" in kind and given is not None:
        return _MEMORY_FORMATS.index(given)
    if "Device" in kind or "Layout" in kind:
        return None
    return given


def _is_same(given: Any, default: Any) -> bool:
    if isinstance(given, ir.Value):
        return False
    return bool(type(given) is type(default) and given == default)


def _is_size(given: Any) -> bool:
    return (
        isinstance(given, ir.Value)
        and given.dtype == ir.DataType.INT64
        and given.shape is not None
        and len(given.shape) == 0
    )


def _tensor(given: Any) -> torch.Tensor:
    """Converts a number or a list of numbers, to the type that it has in TorchScript."""
    if isinstance(given, torch.Tensor):
        return given
    several = isinstance(given, (list, tuple))
    kinds = {type(one) for one in (given if several else [given])}
    if float in kinds:
        return torch.tensor(given, dtype=torch.float64)
    if kinds and kinds <= {bool}:
        return torch.tensor(given, dtype=torch.bool)
    return torch.tensor(given, dtype=torch.int64)


def _shape(value: ir.Value) -> list[int | None] | None:
    if value.shape is None:
        return None
    return [size if isinstance(size, int) else None for size in value.shape]
