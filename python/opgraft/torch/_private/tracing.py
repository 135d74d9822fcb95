"""torch's TorchScript exporter: runs a model once with its example, and records what it calls."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from opgraft.torch._private.exporter import _EXPORTER, onnx_type
from opgraft.torch._private.lookup import private
from opgraft.torch._private.script import _SCRIPT, default_opsets, dtype_of_value
from opgraft.torch._private.script_modules import has_scripts

#: torch's warning for each tensor that becomes a Python value.
TracerWarning = torch.jit.TracerWarning  # type: ignore[attr-defined]

#: Takes a node and a function that translates it as torch does. Returns the values of the node's
#: results.
TranslateTraced = Callable[["TracedNode", Callable[[], Any]], Any]


def is_tracing() -> bool:
    return private("torch._C", "_get_tracing_state")() is not None


def traced_value(tensor: torch.Tensor) -> Any:
    """Returns the value of a tensor in the graph that is being traced."""
    return private("torch._C", "_get_value_trace")(tensor)


def traced_graph() -> Any:
    """Returns the graph traced so far."""
    found = private("torch._C", "_get_tracing_state")().graph
    return found() if callable(found) else found


def is_tensor_value(value: Any) -> bool:
    return str(value.type().kind()) == "TensorType"


@contextmanager
def pausing_trace() -> Iterator[None]:
    """Keeps what happens inside the block out of the trace."""
    state = private("torch._C", "_get_tracing_state")()
    private("torch._C", "_set_tracing_state")(None)
    try:
        yield
    finally:
        private("torch._C", "_set_tracing_state")(state)


@contextmanager
def patched_methods(names: Sequence[str], patch: Callable[[str, Any], Any]) -> Iterator[None]:
    """Replaces methods of tensors by what `patch` makes of them, in this thread only."""
    owner = threading.get_ident()

    def patched(name: str, method: Any) -> Any:
        other = patch(name, method)

        def call(*args: Any, **kwargs: Any) -> Any:
            is_ours = threading.get_ident() == owner and is_tracing()
            return (other if is_ours else method)(*args, **kwargs)

        return call

    own = {name: vars(torch.Tensor)[name] for name in names if name in vars(torch.Tensor)}
    for name in names:
        setattr(torch.Tensor, name, patched(name, getattr(torch.Tensor, name)))
    try:
        yield
    finally:
        for name in names:
            if name in own:
                setattr(torch.Tensor, name, own[name])
            else:
                delattr(torch.Tensor, name)


class TracedNode:
    """A node of the traced graph, while it is translated."""

    def __init__(self, context: Any, node: Any, inputs: Sequence[Any], made: Sequence[Any]) -> None:
        self._context = context
        self._node = node
        #: The values of its inputs in the ONNX graph.
        self.inputs = list(inputs)
        self._before = len(made)
        self._made = made

    @property
    def name(self) -> str:
        """The operator, such as "aten::add". An in-place form has the name of the ordinary one."""
        kind = str(self._node.kind())
        return kind if kind.endswith("__") else kind.removesuffix("_")

    @property
    def made(self) -> list[str]:
        """The ONNX operators that it has been translated to so far."""
        kinds = [str(one.kind()) for one in list(self._made)[self._before :]]
        return [kind.removeprefix("onnx::") for kind in kinds]

    def arguments(self) -> list[Any]:
        """Returns each argument: a constant (a number, text or list), or a `Traced`."""
        given = zip(self._node.inputs(), self.inputs, strict=True)
        return [self._argument(old, new) for old, new in given]

    def _argument(self, old: Any, new: Any) -> Any:
        maker = old.node()
        if maker.kind() == "prim::Constant":
            value = old.toIValue()
            if not isinstance(value, torch.Tensor):
                return value
            return Traced(new, value.dtype, value.dim(), value)
        if maker.kind() == "prim::ListConstruct":
            made = new.node()
            news = list(made.inputs()) if made.kind() == "prim::ListConstruct" else []
            olds = list(maker.inputs())
            if len(news) == len(olds):
                return [self._argument(*pair) for pair in zip(olds, news, strict=True)]
        return Traced(new, *_type_of(old, new))

    def results(self) -> list[tuple[torch.dtype | None, int | None]]:
        """Returns the type and the rank of each result, None if unknown."""
        return [_type_of(one, one) for one in self._node.outputs()]

    @property
    def opset(self) -> int:
        return int(self._context.opset)

    def call(self, symbolic: Callable[..., Any]) -> Any:
        """Calls a symbolic function for the node, and returns its result."""
        return symbolic(self._context, *self.inputs)

    def stand_in(self, domain: str, name: str, inputs: Sequence[Any], key: int) -> Any:
        """Adds a node with as many outputs, which will be replaced in the finished model."""
        types = [(one.type(), _type_of(one, one)) for one in self._node.outputs()]
        values = self._context.op(f"{domain}::{name}", *inputs, key_i=key, outputs=len(types))
        several = list(values) if len(types) > 1 else [values]
        for value, (_, (dtype, rank)) in zip(several, types, strict=True):
            kind = private("torch._C", "TensorType").get()
            kind = kind if dtype is None else kind.with_dtype(dtype)
            # Other arguments may have other sizes than the example.
            value.setType(kind if rank is None else kind.with_sizes([None] * rank))
        return values


class Traced:
    """An argument that is a value of the graph: a tensor, or a number that torch made a tensor."""

    def __init__(
        self,
        value: Any,
        dtype: torch.dtype | None,
        rank: int | None,
        constant: torch.Tensor | None = None,
    ) -> None:
        self.value = value
        self.dtype = dtype
        self.rank = rank
        #: Its value if it is constant; None if it depends on the inputs of the model.
        self.constant = constant


def _type_of(*values: Any) -> tuple[torch.dtype | None, int | None]:
    dtype, rank = None, None
    for value in values:
        dtype = dtype or dtype_of_value(value)
        kind = value.type()
        if rank is None and kind.kind() == "TensorType":
            rank = kind.dim()
    return dtype, rank


def trace_to_onnx(
    model: torch.nn.Module,
    args: tuple[torch.Tensor, ...],
    path: str,
    *,
    opset_version: int,
    input_names: Sequence[str],
    dynamic_axes: Mapping[str, Mapping[int, str]],
    translate: TranslateTraced,
) -> None:
    """Writes the model of torch.onnx.export(dynamo=False), but calls `translate` for each node."""
    with _translating(translate), _without_log(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\.onnx\.")
        if has_scripts(model):
            # Otherwise torch does not see what it calls. Scripted parts keep their loops.
            model = torch.jit.trace(model, args, check_trace=False)  # type: ignore[no-untyped-call]
        private(f"{_SCRIPT}.utils", "export")(
            model,
            args,
            path,
            input_names=list(input_names),
            dynamic_axes=dict(dynamic_axes),
            opset_version=min(opset_version, default_opsets()[1]),
            training=torch.onnx.TrainingMode.PRESERVE,
        )


@contextmanager
def _without_log() -> Iterator[None]:
    """Silences torch, which prints the whole graph to stdout if it fails."""
    library = private("torch._C")
    before = private("torch._C", "_jit_onnx_log")
    library._jit_onnx_log = lambda *_: None
    try:
        yield
    finally:
        library._jit_onnx_log = before


def is_lacking(error: Exception) -> bool:
    """Whether the error says that an operator has no symbolic function."""
    return isinstance(error, torch.onnx.errors.UnsupportedOperatorError)


@contextmanager
def _translating(translate: TranslateTraced) -> Iterator[None]:
    """Calls `translate` instead of torch's symbolic functions, in this thread only."""
    utils = private(f"{_SCRIPT}.utils")
    before = private(f"{_SCRIPT}.utils", "_run_symbolic_function")
    context = private(f"{_SCRIPT}.jit_utils", "GraphContext")
    settings = private(f"{_SCRIPT}._globals", "GLOBALS")
    owner = threading.get_ident()

    def run(
        graph: Any,
        block: Any,
        node: Any,
        inputs: Any,
        env: Any,
        values_in_env: Any,
        new_nodes: Any,
        *others: Any,
    ) -> Any:
        def by_torch() -> Any:
            return before(graph, block, node, inputs, env, values_in_env, new_nodes, *others)

        if threading.get_ident() != owner:  # an export without Opgraft
            return by_torch()
        made = context(
            graph=graph,
            block=block,
            opset=settings.export_onnx_opset_version,
            original_node=node,
            params_dict={},
            env=env,
            values_in_env=values_in_env,
            new_nodes=new_nodes,
        )
        return translate(TracedNode(made, node, inputs, new_nodes), by_torch)

    utils._run_symbolic_function = run
    try:
        yield
    finally:
        utils._run_symbolic_function = before


class OpenTensors:
    """Makes tensors without data and with unknown sizes, as examples of traced values."""

    def __init__(self) -> None:
        self._shapes = private("torch.fx.experimental.symbolic_shapes", "ShapeEnv")()
        made = private("torch._subclasses.fake_tensor", "FakeTensorMode")
        self._mode = made(shape_env=self._shapes)

    def tensor(self, dtype: torch.dtype, rank: int) -> torch.Tensor:
        sizes = [self.number() for _ in range(rank)]
        with self._mode:
            return torch.empty(sizes, dtype=dtype)

    def number(self) -> Any:
        return self._shapes.create_unbacked_symint()


def record(
    opset_version: int, build: Callable[[Any], Any]
) -> tuple[Any, list[Any], dict[Any, Any]]:
    """Calls a translation with the operators of that opset. Returns its result, the nodes that it
    made and the functions that these call."""
    from onnxscript import evaluator

    opset = private(f"{_EXPORTER}._core", "_get_onnxscript_opset")(opset_version)
    recorder = private(f"{_EXPORTER}._building", "OpRecorder")(opset, {})
    with evaluator.default_as(recorder):
        given = build(opset)
    return given, recorder.nodes, recorder.functions


def dtype_of_number(number: int) -> torch.dtype | None:
    """Returns the type that a number stands for among the arguments of TorchScript."""
    kinds = private(f"{_SCRIPT}._type_utils", "JitScalarType")
    try:
        found: torch.dtype = kinds(number).dtype()
    except (ValueError, KeyError):
        return None
    return found


def new_input(opset: Any, dtype: torch.dtype | None, rank: int | None) -> Any:
    """Returns an ONNX value of this type and rank that translations can compute with."""
    import onnx_ir as ir

    known = None if dtype is None else ir.DataType(onnx_type(dtype))
    return private(f"{_EXPORTER}._tensors", "SymbolicTensor")(
        opset,
        shape=None if rank is None else ir.Shape([None] * rank),
        type=None if known is None else ir.TensorType(known),
    )
