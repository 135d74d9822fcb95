"""Calls symbolic functions (register_custom_op_symbolic) with the TorchScript graph that they are
written for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from opgraft.torch._private.lookup import moved, private

_SCRIPT = "torch.onnx._internal.torchscript_exporter"


def default_opsets() -> tuple[int, int]:
    """Returns the default opset of an export, and the highest that symbolic functions support."""
    constants = private("torch.onnx._constants")
    try:
        return constants.ONNX_DEFAULT_OPSET, constants.ONNX_TORCHSCRIPT_EXPORTER_MAX_OPSET
    except AttributeError as error:
        raise moved("torch.onnx._constants.ONNX_DEFAULT_OPSET") from error


def registered_symbolics() -> dict[str, dict[int, Callable[..., Any]]]:
    """Returns what torch.onnx.register_custom_op_symbolic registered, by name and by opset."""
    registry = private(f"{_SCRIPT}.registration", "registry")
    try:
        return {
            name: dict(group._functions._overrides)
            for name, group in registry._registry.items()
            if group._functions._overrides
        }
    except AttributeError as error:
        raise moved(f"{_SCRIPT}.registration.registry._registry") from error


def register_with_torch(name: str, function: Callable[..., Any] | None, opset: int) -> None:
    """Registers a symbolic function with torch for this opset, or unregisters it if it is None."""
    registry = private(f"{_SCRIPT}.registration", "registry")
    if function is None:
        registry.unregister(name, opset)
    else:
        registry.register(name, opset, function, custom=True)


def dtype_of_value(value: Any) -> torch.dtype | None:
    """Returns the type of a value in a TorchScript graph, or None if it is unknown."""
    kinds = private(f"{_SCRIPT}._type_utils", "JitScalarType")
    kind = kinds.from_value(value, kinds.UNDEFINED)
    return None if kind is kinds.UNDEFINED else kind.dtype()


def number_in_script(dtype: torch.dtype) -> int:
    """Returns the number that stands for a type among the arguments of TorchScript."""
    return int(private(f"{_SCRIPT}._type_utils", "JitScalarType").from_dtype(dtype))


@functools.cache
def _context_class() -> type[Any]:
    """Returns the class of the `g` that symbolic functions get."""
    base: type[Any] = private(f"{_SCRIPT}.jit_utils", "GraphContext")

    class Context(base):  # type: ignore[misc]
        def op(self, opname: str, *args: Any, **kwargs: Any) -> Any:
            made = super().op(opname, *args, **kwargs)
            if opname == "prim::ListConstruct":
                # A list without a type crashes torch when it is used.
                made.setType(private("torch._C", "ListType").ofTensors())
            return made

    return Context


class ScriptGraph:
    """A TorchScript graph for one call of a symbolic function."""

    def __init__(self, opset_version: int) -> None:
        #: Whether the function returned a tuple or list.
        self.gave_several = False
        #: The functions of onnxscript that it has used.
        self.functions: list[Any] = []
        self._opset = opset_version
        self._graph = private("torch._C", "Graph")()
        # torch caches shapes and constants by the names of values, across graphs, and a stale one
        # crashes it. Inference over a whole graph, even an empty one, clears this cache first.
        private("torch._C", "_jit_pass_onnx_graph_shape_type_inference")(
            self._graph, {}, opset_version
        )
        self._context = _context_class()(
            graph=self._graph,
            block=self._graph.block(),
            opset=opset_version,
            original_node=None,
            params_dict={},
            env={},
            values_in_env=set(),
        )

    def input(self, dtype: torch.dtype | None, shape: Sequence[int | None] | None) -> Any:
        """Adds a value that stands for a tensor. None means unknown."""
        value = self._graph.addInput()
        type_ = private("torch._C", "TensorType").get()
        if dtype is not None:
            type_ = type_.with_dtype(dtype)
        if shape is not None:
            type_ = type_.with_sizes(list(shape))
        value.setType(type_)
        return value

    def none(self) -> Any:
        return self._graph.insertConstant(None)

    def constant(self, value: torch.Tensor | str) -> Any:
        if isinstance(value, str):
            return self._context.op("Constant", value_s=value)
        return self._context.op("Constant", value_t=value)

    def sequence(self, values: Sequence[Any], kind: str) -> Any:
        """Adds a list of values. `kind` is "Ints", "Floats", "Bools", "Strings" or "Tensors"."""
        made = self._context.op("prim::ListConstruct", *values)
        made.setType(getattr(private("torch._C", "ListType"), f"of{kind}")())
        return made

    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> list[Any]:
        """Runs the function. Returns its values, with None for those that it omits."""
        before = registered_symbolics()
        try:
            with self._settings():
                given = function(self._context, *arguments)
        finally:
            self._take_functions(before)
        self.gave_several = isinstance(given, (list, tuple))
        return list(given) if self.gave_several else [given]

    def _take_functions(self, before: dict[str, dict[int, Callable[..., Any]]]) -> None:
        """Keeps the functions that g.onnxscript_op registered, and unregisters them from torch."""
        for name, functions in registered_symbolics().items():
            known = before.get(name, {})
            for opset, function in functions.items():
                if known.get(opset) is not function:
                    self.functions.append(function)
                    register_with_torch(name, known.get(opset), opset)

    def is_value(self, given: Any) -> bool:
        return isinstance(given, private("torch._C", "Value"))

    def to_onnx(self, outputs: Sequence[Any]) -> bytes:
        """Returns a model of the added nodes. Its inputs are those of `input`, in that order."""
        c = private("torch._C")
        for output in outputs:
            self._graph.registerOutput(output)
        graph = self._graph
        with self._settings():
            # The passes that the TorchScript exporter runs on a graph of ONNX nodes.
            c._jit_pass_onnx_scalar_type_analysis(graph, True, self._opset)
            c._jit_pass_onnx_peephole(graph, self._opset, False)
            c._jit_pass_dce_allow_deleting_nodes_with_side_effects(graph)
            model: bytes = graph._export_onnx(
                {},
                self._opset,
                {},
                False,
                # Allows the nodes that g.at makes.
                torch.onnx.OperatorExportTypes.ONNX_ATEN_FALLBACK,
                True,
                False,
                {},
                True,
                "",
                {},
            )[0]
        return model

    @contextmanager
    def _settings(self) -> Iterator[None]:
        settings = private(f"{_SCRIPT}._globals", "GLOBALS")
        before = settings.export_onnx_opset_version
        settings.export_onnx_opset_version = self._opset
        try:
            yield
        finally:
            settings.export_onnx_opset_version = before
