"""A case of an operator: its models, one for each way of running, and its sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

import opgraft
from opgraft import _pyop
from opgraft._cuda._provider import Chosen
from opgraft._declare import _declare
from opgraft._declare._signature import ELEMENT_TYPES
from opgraft._run._tensors import TYPES, Exchange
from opgraft._testing._devices import CPU, CUDA, add_gpu
from opgraft._testing._expected import Shape

_IR_VERSION = 10
_STANDARD_VERSION = 21  # of the ONNX operators around the operator under test
_STRING = 8
_LAST_COMMON_TYPE = 16  # bfloat16: ONNX's operators take all types up to it, but not all beyond
_PACKED_TYPES = [one.number for one in _pyop.ELEMENT_TYPES if one.is_packed]
_MOST_SINGLE_INITIALIZERS = 4
_WIDEST_ALIGNMENT = 64

FIXED, SYMBOLIC, UNKNOWN = "dimensions fixed", "dimensions symbolic", "ranks unknown"


@dataclass
class Value:
    """An input or output as it was added; an omitted one has no name."""

    name: str = ""
    element_type: int = 0
    shape: Shape = None
    array: np.ndarray | None = None
    constant: bool = False
    tolerance: tuple[float, float] | None = None

    @property
    def is_common(self) -> bool:
        return self.element_type <= _LAST_COMMON_TYPE


@dataclass(frozen=True)
class Way:
    """How a case is run. `initializers` are indices of inputs, in addition to constant ones."""

    name: str
    dimensions: str = FIXED
    initializers: frozenset[int] = frozenset()
    is_odd: bool = False
    is_between: bool = False
    asks_shapes: bool = False
    on_gpu: bool = False

    def moved_to_gpu(self) -> Way:
        """Returns this way on the GPU, without Shape nodes, which would run on the CPU."""
        return replace(self, name=f"{self.name}, on the GPU", asks_shapes=False, on_gpu=True)


@dataclass
class Case:
    """One operator, its values and its attributes."""

    domain: str
    name: str
    version: int
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    attributes: Mapping[str, Any]
    library: str | None = None
    session_arguments: Mapping[str, Any] = field(default_factory=dict)
    devices: Set[str] = frozenset({CPU})
    untested: str = ""  # why it is not run on the GPU although it has a kernel there

    @property
    def full_name(self) -> str:
        return f"{self.domain}::{self.name}" if self.domain else self.name

    @property
    def output_names(self) -> list[str]:
        return [value.name for value in self.outputs if value.name]

    def ways(self) -> list[Way]:
        """Returns the ways of each device. Odd addresses are for the CPU only: copies lose them."""
        ways = self._ways()
        on_gpu = [way.moved_to_gpu() for way in ways if not way.is_odd]
        return [*(ways if CPU in self.devices else ()), *(on_gpu if CUDA in self.devices else ())]

    def _ways(self) -> list[Way]:
        fed = frozenset(
            place for place, one in enumerate(self.inputs) if one.name and not one.constant
        )
        is_common = all(one.is_common for one in (*self.inputs, *self.outputs))
        ways = [Way("no inputs fed")]
        if fed:
            ways = [
                Way(f"inputs fed, {FIXED}", asks_shapes=is_common),
                Way(f"inputs fed, {SYMBOLIC}", SYMBOLIC, asks_shapes=is_common),
                Way(f"inputs fed, {UNKNOWN}", UNKNOWN, asks_shapes=is_common),
                Way("inputs fed at odd addresses", is_odd=True),
                Way("all inputs initializers", initializers=fed),
            ]
        if len(fed) > 1:
            ways += [
                Way(
                    f"input '{self.inputs[place].name}' an initializer, others fed",
                    SYMBOLIC,
                    frozenset([place]),
                )
                for place in sorted(fed)[:_MOST_SINGLE_INITIALIZERS]
            ]
        if is_common:
            ways.append(Way("between other nodes, whose memory may be reused", is_between=True))
        return ways


@dataclass
class Plan:
    """The model of one way, its inputs, and the sizes that its symbols stand for."""

    model: onnx.ModelProto
    feed: dict[str, np.ndarray] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)


def plan(case: Case, way: Way, *, typed: bool = False) -> Plan:
    """Makes the model of a way. The outputs have no shapes, and have types only if `typed`."""

    def inside(name: str) -> str:
        return f"{name}/inside" if way.is_between and name else name

    made = Plan(onnx.ModelProto())
    graph = onnx.GraphProto(name="case")
    node = helper.make_node(
        case.name,
        [],
        [inside(one.name) for one in case.outputs],
        name=case.name,
        domain=case.domain,
        **{
            name: _tensor("", value) if isinstance(value, np.ndarray) else value
            for name, value in case.attributes.items()
        },
    )
    for place, one in enumerate(case.inputs):
        if one.name and (one.constant or place in way.initializers):
            assert one.array is not None
            graph.initializer.append(_tensor(one.name, one.array))
            node.input.append(one.name)
            continue
        node.input.append(inside(one.name))
        if not one.name:
            continue
        shape = None if way.dimensions == UNKNOWN else one.shape
        if way.dimensions == SYMBOLIC and one.array is not None:
            shape = tuple(f"{one.name}_{axis}" for axis in range(one.array.ndim))
            made.symbols.update(zip(map(str, shape), one.array.shape, strict=True))
        graph.input.append(helper.make_tensor_value_info(one.name, one.element_type, shape))
        if one.array is not None:
            made.feed[one.name] = _odd(one.array) if way.is_odd else one.array.copy()
        if way.is_between:
            # Unlike Identity, a Cast to the same type always allocates its own output.
            graph.node.append(
                helper.make_node(
                    "Cast", [one.name], [inside(one.name)], f"Cast {one.name}", to=one.element_type
                )
            )
    graph.node.append(node)
    for one in case.outputs:
        if not one.name:
            continue
        output = ValueInfoProto(name=one.name)
        if typed:
            output = helper.make_tensor_value_info(one.name, one.element_type, None)
        graph.output.append(output)
        if way.is_between:
            names = [inside(one.name)], [one.name]
            graph.node.append(helper.make_node("Identity", *names, f"Identity {one.name}"))
            if typed:
                graph.value_info.append(
                    helper.make_tensor_value_info(inside(one.name), one.element_type, None)
                )
    for name in case.output_names if way.asks_shapes else []:
        graph.node.append(helper.make_node("Shape", [name], [shape_name(name)], f"Shape {name}"))
        graph.output.append(
            helper.make_tensor_value_info(shape_name(name), TensorProto.INT64, None)
        )
    imports = {"": _STANDARD_VERSION, case.domain: case.version}
    made.model = helper.make_model(
        graph,
        ir_version=_IR_VERSION,
        opset_imports=[helper.make_opsetid(*one) for one in imports.items()],
    )
    return made


def shape_name(output: str) -> str:
    """Returns the name of the value that holds an output's shape."""
    return f"{output}/shape"


def _tensor(name: str, array: np.ndarray) -> TensorProto:
    number = element_type(array.dtype)
    if number == _STRING:
        return numpy_helper.from_array(array.astype(object), name)
    data = np.ascontiguousarray(array)
    if number in _PACKED_TYPES:
        nibbles = np.append(data.reshape(-1).view(np.uint8) & 15, np.uint8(0))
        data = nibbles[: data.size : 2] | nibbles[1 : data.size + 1 : 2] << 4
    return TensorProto(
        name=name, data_type=number, dims=array.shape, raw_data=data.astype(data.dtype).tobytes()
    )


def element_type(dtype: np.dtype[Any]) -> int:
    """Returns ONNX's number of a type."""
    if dtype.kind in "OUST":
        return _STRING
    if dtype.name not in ELEMENT_TYPES:
        raise TypeError(f"there are no tensors of {dtype}")
    return ELEMENT_TYPES[dtype.name]


def _odd(array: np.ndarray) -> np.ndarray:
    """Returns a copy in memory that is aligned for its elements, but no further."""
    if array.dtype.kind in "OUST" or array.size == 0:
        return np.array(array)
    memory = np.zeros(array.nbytes + 2 * _WIDEST_ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _WIDEST_ALIGNMENT + array.itemsize
    made: np.ndarray = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


class Session:
    """A session of ONNX Runtime, made by Opgraft, or with a library registered the usual way."""

    def __init__(self, case: Case, way: Way) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # failures are reported by OpTester
        options.intra_op_num_threads = 2
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if way.is_between:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        arguments: dict[str, Any] = {"providers": ["CPUExecutionProvider"]}
        if way.on_gpu:
            # Not optimised, because constants would be computed on the CPU when it is opened.
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            arguments = add_gpu(options, is_alone=not way.is_between)
        make: Callable[..., Any] = onnxruntime.InferenceSession
        if case.library is not None:
            options.register_custom_ops_library(case.library)
            chosen = Chosen(arguments["providers"], None, options)
            arguments = {"providers": chosen.providers}
        else:
            make = opgraft.InferenceSession
            arguments |= case.session_arguments
        for typed in (False, True):  # with types only if the runtime cannot infer them
            self.plan = plan(case, way, typed=typed)
            try:
                self._session = make(self.plan.model.SerializeToString(), options, **arguments)
                break
            except Exception:
                if typed:
                    raise
        self._is_plain = case.library is not None

    def run(self) -> tuple[dict[str, Any], list[str]]:
        """Returns the outputs by name, and the names of inputs whose elements were changed."""
        before = {name: array.copy() for name, array in self.plan.feed.items()}
        names = [one.name for one in self._session.get_outputs()]
        if self._is_plain:
            exchange = Exchange(self._session)
            results = exchange.run(self._session, names, dict(self.plan.feed), None)
        else:
            results = self._session.run(names, self.plan.feed)
        outputs = dict(zip(names, results, strict=True))
        changed = [
            name
            for name, array in self.plan.feed.items()
            if array.dtype.kind != "O" and array.tobytes() != before[name].tobytes()
        ]
        return outputs, changed

    def inferred(self, output: str) -> tuple[str, Shape]:
        """Returns the name of the type, and the shape: None if unknown, or if it is a scalar's."""
        value = next(one for one in self._session.get_outputs() if one.name == output)
        name = str(value.type).removeprefix("tensor(").removesuffix(")")
        name = {"float": "float32", "double": "float64"}.get(name, name)
        if name in TYPES:
            name = TYPES[name][1]
        return name, tuple(value.shape) or None


def is_known_to_onnx(case: Case) -> bool:
    return bool(onnx.defs.has(case.name, case.version, case.domain))


def ask_onnx(case: Case, dimensions: str) -> tuple[dict[str, tuple[str, Shape]], dict[str, int]]:
    """Returns what onnx.shape_inference infers for the outputs by the operator's own rule."""
    made = plan(case, Way(dimensions, dimensions))
    inferred = onnx.shape_inference.infer_shapes(made.model, strict_mode=True, data_prop=True)
    names = {number: name for name, number in ELEMENT_TYPES.items()}
    said: dict[str, tuple[str, Shape]] = {}
    for value in (*inferred.graph.output, *inferred.graph.value_info):
        if not value.type.HasField("tensor_type"):
            continue
        tensor = value.type.tensor_type
        shape: Shape = None
        if tensor.HasField("shape"):
            shape = tuple(
                one.dim_value if one.HasField("dim_value") else one.dim_param or None
                for one in tensor.shape.dim
            )
        said[value.name] = (names.get(tensor.elem_type, ""), shape)
    return said, made.symbols


def run_reference(case: Case) -> dict[str, Any] | None:
    """Returns the results of onnx.reference, or None if it does not have the operator."""
    from onnx.reference import ReferenceEvaluator

    made = plan(case, Way("onnx.reference"), typed=True)
    try:
        evaluator = ReferenceEvaluator(made.model)
    except Exception:
        if is_declared(case):
            raise
        return None
    return dict(zip(case.output_names, evaluator.run(None, made.feed), strict=True))


def is_declared(case: Case) -> bool:
    """Whether the operator is declared in Python, in this process."""
    return any(one.full_name == case.full_name for one in _declare.operators())


def packs_of_environment() -> list[str]:
    """Returns the packs that `opgraft test` has built."""
    return [path for path in os.environ.get("OPGRAFT_TEST_PACKS", "").split(":") if path]
