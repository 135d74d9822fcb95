"""All private names of torch that Opgraft uses, each guarded: what moves is named in the error."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from opgraft._errors import UnavailableError


def moved(name: str) -> UnavailableError:
    """The error for a private name that this version of torch does not have."""
    return UnavailableError(
        f"torch {torch.__version__} has no {name}, which opgraft.torch needs; "
        "use torch 2.13, with which it is tested, or a newer Opgraft"
    )


@functools.cache
def private(module: str, name: str = "") -> Any:
    """The object of that name in a module of torch; looked up when it is first needed, so that one
    that has moved stops what needs it and nothing more."""
    try:
        value: Any = importlib.import_module(module)
        for part in filter(None, name.split(".")):
            value = getattr(value, part)
    except (ImportError, AttributeError) as error:
        raise moved(f"{module}.{name}".rstrip(".")) from error
    return value


# Symbolic functions (register_custom_op_symbolic): they are written for a graph of TorchScript, so
# they are given one.

_SCRIPT = "torch.onnx._internal.torchscript_exporter"


def default_opsets() -> tuple[int, int]:
    """The opset of an export that names none, and the highest that symbolic functions know."""
    constants = private("torch.onnx._constants")
    try:
        return constants.ONNX_DEFAULT_OPSET, constants.ONNX_TORCHSCRIPT_EXPORTER_MAX_OPSET
    except AttributeError as error:
        raise moved("torch.onnx._constants.ONNX_DEFAULT_OPSET") from error


def registered_symbolics() -> dict[str, dict[int, Callable[..., Any]]]:
    """What was registered by torch.onnx.register_custom_op_symbolic: by name and by opset."""
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
    """Registers a symbolic function with torch for this opset, or takes back what is there."""
    registry = private(f"{_SCRIPT}.registration", "registry")
    if function is None:
        registry.unregister(name, opset)
    else:
        registry.register(name, opset, function, custom=True)


def functional_overloads(name: str) -> list[Any]:
    """All forms of an operator (namespace::name) that write into none of their arguments."""
    namespace, _, operator = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    if not isinstance(packet, private("torch._ops", "OpOverloadPacket")):
        return []
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    try:
        return [overload for overload in overloads if not overload._schema.is_mutable]
    except AttributeError as error:
        raise moved("OpOverload._schema") from error


def parameters_of(overload: Any) -> list[tuple[str, str, Any]]:
    """Name, type and default value (None if there is none) of each argument of an operator."""
    try:
        return [
            (argument.name, str(argument.real_type), argument.default_value)
            for argument in overload._schema.arguments
        ]
    except AttributeError as error:
        raise moved("OpOverload._schema") from error


def returns_of(overload: Any) -> list[str]:
    """The types of what an operator gives."""
    return [str(value.real_type) for value in overload._schema.returns]


def schema_text(overload: Any) -> str:
    return str(overload._schema)


def dtype_of_value(value: Any) -> torch.dtype | None:
    """The type of a value in a script graph, where it is known."""
    kinds = private(f"{_SCRIPT}._type_utils", "JitScalarType")
    kind = kinds.from_value(value, kinds.UNDEFINED)
    return None if kind is kinds.UNDEFINED else kind.dtype()


def number_in_script(dtype: torch.dtype) -> int:
    """What stands for a type among the arguments of TorchScript."""
    return int(private(f"{_SCRIPT}._type_utils", "JitScalarType").from_dtype(dtype))


@functools.cache
def _context_class() -> type[Any]:
    """Of the `g` that symbolic functions get."""
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
    """A graph of TorchScript for one call of a symbolic function."""

    def __init__(self, opset_version: int) -> None:
        #: Whether the function gave a tuple or list.
        self.gave_several = False
        #: The functions of onnxscript that it has used.
        self.functions: list[Any] = []
        self._opset = opset_version
        self._graph = private("torch._C", "Graph")()
        # Shapes and constants are remembered by the names of values, across graphs: a stale one
        # crashes torch. Inference over a whole graph, even an empty one, begins by forgetting them.
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
        """A value that stands for a tensor; None is what is not known."""
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
        """A list of values, which are "Ints", "Floats", "Bools", "Strings" or "Tensors"."""
        made = self._context.op("prim::ListConstruct", *values)
        made.setType(getattr(private("torch._C", "ListType"), f"of{kind}")())
        return made

    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> list[Any]:
        """Runs the function; the values that it gives, with None for those that it leaves out."""
        before = registered_symbolics()
        try:
            with self._settings():
                given = function(self._context, *arguments)
        finally:
            self._take_functions(before)
        self.gave_several = isinstance(given, (list, tuple))
        return list(given) if self.gave_several else [given]

    def _take_functions(self, before: dict[str, dict[int, Callable[..., Any]]]) -> None:
        """g.onnxscript_op registers functions with torch, for good; they are wanted here alone."""
        for name, functions in registered_symbolics().items():
            known = before.get(name, {})
            for opset, function in functions.items():
                if known.get(opset) is not function:
                    self.functions.append(function)
                    register_with_torch(name, known.get(opset), opset)

    def is_value(self, given: Any) -> bool:
        return isinstance(given, private("torch._C", "Value"))

    def to_onnx(self, outputs: Sequence[Any]) -> bytes:
        """A model of what was added, whose inputs are those made by `input`, in their order."""
        c = private("torch._C")
        for output in outputs:
            self._graph.registerOutput(output)
        graph = self._graph
        with self._settings():
            # What the exporter of TorchScript does with a graph of ONNX nodes.
            c._jit_pass_onnx_scalar_type_analysis(graph, True, self._opset)
            c._jit_pass_onnx_peephole(graph, self._opset, False)
            c._jit_pass_dce_allow_deleting_nodes_with_side_effects(graph)
            model: bytes = graph._export_onnx(
                {},
                self._opset,
                {},
                False,
                # So that what g.at gives is allowed.
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


def recorder() -> Any:
    """What gathers the nodes (`nodes`) and functions (`functions`) of the translation under way."""
    found = private("torch.onnx._internal.exporter._core").current_tracer
    if found is None:
        raise moved("torch.onnx._internal.exporter._core.current_tracer")
    return found


# The registry of the exporter.

_EXPORTER = "torch.onnx._internal.exporter"


def lowest_opset() -> int:
    """The opset that torch's translations are written in."""
    return int(private(f"{_EXPORTER}._constants", "TORCHLIB_OPSET"))


@functools.cache
def own_translations() -> dict[str, list[tuple[Callable[..., Any], bool]]]:
    """torch's own translations by namespace::name.overload, and whether for complex inputs."""
    registry = private(f"{_EXPORTER}._registration", "ONNXRegistry").from_torchlib()
    found: dict[str, list[tuple[Callable[..., Any], bool]]] = {}
    try:
        for target, translations in registry.functions.items():
            if not isinstance(target, str):
                target = f"{target.__module__}::{target.__name__}"
            name = target if "." in target else f"{target}.default"
            found[name] = [(one.onnx_function, one.is_complex) for one in translations]
    except AttributeError as error:
        raise moved("ONNXRegistry.functions") from error
    return found


def find_target(name: str) -> Any:
    """What nodes of torch.export call for namespace::name.overload, or None."""
    namespace, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    if namespace in ("_operator", "math"):
        return getattr(importlib.import_module(namespace), operator, None)
    return getattr(getattr(getattr(torch.ops, namespace), operator, None), overload, None)


def whole_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with what torch leaves out where it is one of onnxscript: the outputs, where
    the result has no type annotation, and the functions that it calls."""
    import onnx_ir as ir
    import onnxscript

    if not isinstance(function, onnxscript.OnnxFunction):
        return function
    signature = private(f"{_EXPORTER}._schemas", "op_signature_from_function")(
        function,
        function.function_ir.domain,
        function.name,
        since_version=function.opset.version,
    )
    if not signature.outputs:
        outputs = [
            ir.schemas.Parameter(
                name=f"output_{index}",
                type_constraint=ir.schemas.TypeConstraintParam.any_value(f"T_output_{index}"),
                required=True,
                variadic=False,
            )
            for index, _ in enumerate(function.function_ir.outputs)
        ]
        signature = ir.schemas.OpSignature(
            domain=signature.domain,
            name=signature.name,
            overload=signature.overload,
            params=signature.params,
            outputs=outputs,
            since_version=signature.since_version,
        )

    def call(*args: Any, **kwargs: Any) -> Any:
        function._pt_onnx_signature = signature  # type: ignore[attr-defined]
        recorder().functions.update(called_functions(function))
        return function(*args, **kwargs)

    call.__name__ = function.name
    return call


def called_functions(function: Any) -> dict[tuple[str, str, str], Any]:
    """A function of onnxscript and all that it calls, by the identifiers that models have."""
    called = function.function_ir.get_called_functions().values()
    return {(one.function_ir.domain, one.name, ""): one for one in (*called, function)}


@contextmanager
def complex_translations(table: dict[Any, Callable[..., Any]]) -> Iterator[None]:
    """Has exports use these translations for complex inputs, which a custom_translation_table
    cannot say."""
    if not table:
        yield
        return
    registry = private(f"{_EXPORTER}._registration", "ONNXRegistry")
    original = registry.__dict__["from_torchlib"]

    def from_torchlib(cls: Any, *args: Any, **kwargs: Any) -> Any:
        made = original.__func__(cls, *args, **kwargs)
        for target, function in table.items():
            made.register_op(target, function, is_complex=True)
        return made

    registry.from_torchlib = classmethod(from_torchlib)
    try:
        yield
    finally:
        registry.from_torchlib = original


# Arguments in their structures, and tensors without data.


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    return private("torch.utils._pytree", "tree_map")(function, tree)


def tree_leaves(tree: Any) -> list[Any]:
    leaves: list[Any] = private("torch.utils._pytree", "tree_leaves")(tree)
    return leaves


def flat_arguments(
    program: torch.export.ExportedProgram, args: Any, kwargs: dict[str, Any]
) -> list[Any] | None:
    """The leaves of the arguments in the order of the program's, or None where they are built in
    another way."""
    expected = program.call_spec.in_spec
    try:
        names = expected.children()[1].context
    except AttributeError as error:
        raise moved("TreeSpec.children") from error
    if set(names or ()) != set(kwargs):
        return None
    in_order = {name: kwargs[name] for name in names or ()}
    leaves, structure = private("torch.utils._pytree", "tree_flatten")((args, in_order))
    return leaves if structure == expected else None


def fake_mode() -> Any:
    """A mode under which tensors have no data."""
    environment = private("torch.fx.experimental.symbolic_shapes", "ShapeEnv")(
        allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False
    )
    made = private("torch._subclasses.fake_tensor", "FakeTensorMode")
    return made(allow_non_fake_inputs=True, shape_env=environment)


def is_fake(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, private("torch._subclasses.fake_tensor", "FakeTensor"))
