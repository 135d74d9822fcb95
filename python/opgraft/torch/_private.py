"""All private names of torch that Opgraft uses, each guarded: what moves is named in the error."""

from __future__ import annotations

import ctypes
import functools
import importlib
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from opgraft._errors import UnavailableError


class Moved(UnavailableError):
    """A private name of torch is not where it was."""


def moved(name: str) -> Moved:
    """The error for a private name that this version of torch does not have."""
    return Moved(
        f"torch {torch.__version__} has no {name}, which opgraft.torch needs; "
        "use torch 2.10, 2.13 or 2.15, with which it is tested, or a newer Opgraft"
    )


# Schemas of operators (the ATen node)

OpOverload = torch._ops.OpOverload


def name_of(overload: OpOverload) -> tuple[str, str]:
    """The name of an operator with its namespace, and the overload's, "" for the default."""
    name, _, overload_name = str(overload.name()).partition(".")  # type: ignore[no-untyped-call]
    return name, "" if overload_name == "default" else overload_name


@dataclass(frozen=True)
class Argument:
    """An argument of an operator, as torch's schema has it."""

    name: str
    type: str  #: such as "Optional[List[int]]"
    count: int | None  #: of a list that one number may stand for
    is_keyword: bool
    has_default: bool
    default: Any


def schema_of(overload: OpOverload) -> tuple[list[Argument], list[str]]:
    """The arguments of an operator, and the types of what it gives."""
    try:
        schema = overload._schema
        arguments = [
            Argument(
                argument.name,
                str(argument.real_type),
                argument.N,  # type: ignore[attr-defined]
                argument.kwarg_only,
                argument.has_default_value(),
                argument.default_value,
            )
            for argument in schema.arguments
        ]
        returns = [str(value.real_type) for value in schema.returns]
    except AttributeError as error:
        raise moved("OpOverload._schema") from error
    return arguments, returns


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


# What torch.onnx.export is made of.

_EXPORTER = "torch.onnx._internal.exporter"
_registries: dict[tuple[int, bool], Any] = {}
#: torch.export is for one thread at a time.
_exporting = threading.RLock()

#: Of a node of the graph, what translates it to ONNX.
Translate = Callable[..., Any]


def exporter(module: str, name: str) -> Any:
    return private(f"{_EXPORTER}.{module}", name)


def default_opset() -> int:
    return int(private("torch.onnx._constants", "ONNX_DEFAULT_OPSET"))


def lowest_opset() -> int:
    """The opset that torch's translations are written in."""
    return int(exporter("_constants", "TORCHLIB_OPSET"))


def new_registry(opset_version: int) -> Any:
    """torch's translations, to be added to. Made once, since that takes the better part of a
    second; torchvision's are among them where it has been imported."""
    key = opset_version, "torchvision" in sys.modules
    made = exporter("_registration", "ONNXRegistry")
    if key not in _registries:
        logger = logging.getLogger(made.__module__)
        level = logger.level
        logger.setLevel(logging.ERROR)  # it warns where torchvision is not installed
        try:
            _registries[key] = made.from_torchlib(opset_version=opset_version)
        finally:
            logger.setLevel(level)
    return copy_registry(_registries[key])


def copy_registry(registry: Any) -> Any:
    try:
        copy = type(registry)()
        copy._opset_version = registry.opset_version
        copy.functions = {target: list(known) for target, known in registry.functions.items()}
    except (AttributeError, TypeError) as error:
        raise moved("ONNXRegistry.functions") from error
    return copy


def keep_whole(registry: Any, target: Any) -> None:
    """Makes a registry say that an operator has a translation, so that it is not decomposed."""
    known = exporter("_registration", "OnnxDecompMeta")
    registry.functions.setdefault(registered_name(target), []).append(
        known(
            onnx_function=keep_whole,
            fx_target=target,
            signature=None,
            is_custom=False,
            skip_signature_inference=True,
        )
    )


def can_decompose(target: Any) -> bool:
    """Whether torch has a decomposition of an operator, which its translation stands in for."""
    return target in private("torch._decomp", "decomposition_table")


def registered_name(target: Any) -> Any:
    """By which a registry has the translations of an operator."""
    return str(target.name()) if isinstance(target, OpOverload) else target  # type: ignore[no-untyped-call]


def capture_strategies() -> list[type[Any]]:
    """How torch.onnx.export captures a model, in the order in which it tries."""
    return [
        exporter("_capture_strategies", "TorchExportNonStrictStrategy"),
        exporter("_capture_strategies", "TorchExportStrictStrategy"),
        exporter("_capture_strategies", "TorchExportDraftExportStrategy"),
    ]


def decompose(program: Any, registry: Any) -> Any:
    """The program in terms of what the registry has, with explicit conversions of types."""
    forget_fresh_symbols(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of its own ways
        prepare = exporter("_core", "_prepare_exported_program_for_export")
        prepared = prepare(program, registry=registry)
    _name_outputs(prepared)
    return prepared


def _name_outputs(program: Any) -> None:
    """Has the signature of a program name the nodes that it gives. Where torch adds a conversion of
    a result, as for the absolute values of halves, it goes on naming what is converted."""
    output = next(node for node in program.graph.nodes if node.op == "output")
    for spec, node in zip(program.graph_signature.output_specs, output.args[0], strict=True):
        if isinstance(node, torch.fx.Node) and spec.arg.name != node.name:
            spec.arg = type(spec.arg)(name=node.name)


def forget_fresh_symbols(program: Any) -> None:
    """Without this a program whose sizes depend on data can be decomposed once only."""
    for node in program.graph.nodes:
        environment = getattr(getattr(node.meta.get("val"), "fake_mode", None), "shape_env", None)
        if environment is not None:
            environment.pending_fresh_unbacked_symbols.clear()
            return


def find_translation(node: torch.fx.Node, registry: Any) -> Translate | None:
    added = find_added(node, registry)
    translation: Translate | None = (
        exporter("_dispatching", "dispatch")(node, registry)[0] if added is None else added
    )
    return translation


def find_added(node: torch.fx.Node, registry: Any) -> Translate | None:
    """The translation of a node that was added to the registry."""
    known = registry.get_decomps(node.target)
    if not known or not known[0].is_custom:
        return None
    values = [one.meta.get("val") for one in node.all_input_nodes]
    if any(isinstance(one, torch.Tensor) and one.is_complex() for one in values):
        return None  # as in torch.onnx.export, they are for real numbers
    added: Translate = known[0].onnx_function
    return added


def translate(program: Any, registry: Any, choose: Callable[[torch.fx.Node], Translate]) -> Any:
    """torch's translation of a decomposed program to ONNX; `choose` says how for each node."""
    with _choosing(choose), _without_constants(program), _without_operators(program):
        return exporter("_core", "_exported_program_to_onnx_program")(program, registry=registry)


@contextmanager
def _without_constants(program: Any) -> Iterator[None]:
    """Leaves out results that are Python's own numbers, at which torch's translation stumbles."""
    output = next(node for node in program.graph.nodes if node.op == "output")
    before = output.args
    output.args = (tuple(one for one in before[0] if isinstance(one, torch.fx.Node)),)
    try:
        yield
    finally:
        output.args = before


#: In a node's meta: the operator that it calls by an operator of higher order.
CALLED = "opgraft.called"


@contextmanager
def _without_operators(program: Any) -> Iterator[None]:
    """Leaves out arguments that are operators, at which torch's translation stumbles as well."""
    before = {}
    for module in program.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            if is_functionalized(node.target):
                before[node] = node.args
                node.meta[CALLED] = node.args[0]
                node.args = node.args[1:]
    try:
        yield
    finally:
        for node, args in before.items():
            node.args = args


def is_functionalized(target: Any) -> bool:
    """Whether it calls an operator that changes its arguments, and gives the changed ones."""
    return getattr(target, "__name__", "") == "auto_functionalized_v2"


@contextmanager
def _choosing(choose: Callable[[torch.fx.Node], Translate]) -> Iterator[None]:
    """Puts `choose` in the place of torch's own dispatcher, for this thread alone."""
    dispatching = private(f"{_EXPORTER}._dispatching")
    original = exporter("_dispatching", "dispatch")
    before = dispatching.dispatch
    owner = threading.get_ident()

    def dispatch(node: torch.fx.Node, registry: Any) -> tuple[Translate | None, str]:
        if threading.get_ident() != owner:  # who exports without us
            found: tuple[Translate | None, str] = original(node, registry)
            return found
        return choose(node), "chosen by Opgraft"

    dispatching.dispatch = dispatch
    try:
        yield
    finally:
        dispatching.dispatch = before


@contextmanager
def exporting() -> Iterator[None]:
    """Has this thread alone export, and lets torch.onnx.is_in_onnx_export() say yes."""
    flags = private(f"{_EXPORTER}._flags")
    with _exporting:
        before = getattr(flags, "_is_onnx_exporting", None)
        if before is None:
            raise moved(f"{_EXPORTER}._flags._is_onnx_exporting")
        flags._is_onnx_exporting = True
        try:
            yield
        finally:
            flags._is_onnx_exporting = before


def convert_version(model: Any, opset_version: int) -> Any:
    return private("torch.onnx._internal._lazy_import", "onnxscript_apis").convert_version(
        model, opset_version
    )


def origin(node: torch.fx.Node) -> str:
    """The name of the node that a node was decomposed from, in the program that was captured."""
    name = node.name
    sources = node.meta.get("from_node")
    while sources:
        try:
            name, sources = sources[-1].name, sources[-1].from_node
        except (AttributeError, IndexError, TypeError) as error:
            raise moved('fx.Node.meta["from_node"]') from error
    return str(name)


def original(node: torch.fx.Node) -> Any:
    """The ATen operator that a node was last decomposed from. torch may have a copy of it, which is
    not equal to the one that it decomposes by."""
    found = node.meta.get("original_aten")
    return find_operator(*name_of(found)) if isinstance(found, OpOverload) else found


def overload_name(overload: OpOverload) -> str:
    return ".".join(filter(None, name_of(overload)))


def is_mutable(overload: OpOverload) -> bool:
    return bool(overload._schema.is_mutable)


def is_builtin(target: Any) -> bool:
    """Whether a node does not call an operator but Python itself, such as operator.getitem."""
    return not isinstance(target, (OpOverload, private("torch._ops", "HigherOrderOperator")))


def namespace_of(overload: OpOverload) -> str:
    return str(overload.namespace)


def recorder() -> Any:
    """What records the nodes that a translation makes, while torch calls one."""
    from onnxscript import evaluator

    found = evaluator.default()
    if not isinstance(found, exporter("_building", "OpRecorder")):
        raise moved(f"{_EXPORTER}._building.OpRecorder")
    return found


def new_value() -> Any:
    """A value of the ONNX graph that translations can compute with."""
    return exporter("_tensors", "SymbolicTensor")(recorder().opset)


# Python nodes


def changed_arguments(overload: OpOverload) -> list[str]:
    """The names of the arguments that an operator writes to."""
    arguments = overload._schema.arguments
    return [one.name for one in arguments if one.alias_info is not None and one.alias_info.is_write]


def find_operator(name: str, overload: str) -> Any:
    """`torch.ops.<namespace>.<name>.<overload>`, or None."""
    namespace, _, rest = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), rest, None)
    found = getattr(packet, overload or "default", None)
    return found if isinstance(found, OpOverload) else None


#: The namespaces of what torch itself defines in C++. `prim` is TorchScript's.
_OWN = frozenset(
    """_c10d_functional _c10d_functional_autograd _dtensor _native_aot _quantized _test aten c10d
    fsdp inductor inductor_prims mkl mkldnn mkldnn_prepacked onednn prepacked prim profiler
    quantization quantized sparse static_runtime symm_mem""".split()
)


def is_torchs_own(overload: OpOverload) -> bool:
    """Whether it is one of torch's own operators in C++."""
    is_python = definition_file(overload).endswith(".py")
    return namespace_of(overload) in _OWN and not is_python


def definition_file(overload: OpOverload) -> str:
    """The source that defines an operator, as its registration has it."""
    dump = str(private("torch._C", "_dispatch_dump")(overload_name(overload)))
    line = next((line for line in dump.splitlines() if line.startswith("debug: ")), "")
    return line.removeprefix("debug: registered at ").rpartition(":")[0]


def defining_module(overload: OpOverload) -> str:
    """The Python module that defines an operator; empty where that cannot be told."""
    definition = private("torch._library.custom_ops", "OPDEFS").get(overload_name(overload))
    if definition is not None:
        return str(getattr(getattr(definition, "_init_fn", None), "__module__", ""))
    file = definition_file(overload)
    found = (name for name, one in sys.modules.items() if getattr(one, "__file__", None) == file)
    return next(found, "")


# Arguments and results as trees


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of nested lists, tuples, dicts and such; None is one."""
    leaves, shape = private("torch.utils._pytree", "tree_flatten")(tree)
    return leaves, shape


def unflatten(leaves: Sequence[Any], shape: Any) -> Any:
    return private("torch.utils._pytree", "tree_unflatten")(list(leaves), shape)


def flatten_once(tree: Any) -> tuple[list[Any], Any]:
    """What a tree is made of, which may be trees; a leaf is made of itself."""
    children, shape = private("torch.utils._pytree", "tree_flatten")(
        tree, is_leaf=lambda one: one is not tree
    )
    return children, shape


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    return private("torch.utils._pytree", "tree_map")(function, tree)


def hint(size: torch.SymInt) -> int | None:
    """The size that a symbol has in the example it was traced with."""
    found = getattr(size.node, "hint", None)
    return None if found is None else int(found)


def add_translation(registry: Any, target: Any, translation: Translate) -> None:
    """Places a translation ahead of torch's own."""
    if isinstance(translation, Sequence):
        raise TypeError("custom_translation_table: expected one function for each operator")
    registry.register_op(target, translation, is_complex=False)


def split_arguments(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """As in torch.onnx.export, a dict at the end of the arguments is the named ones."""
    if not kwargs and args and isinstance(args[-1], dict):
        return tuple(args[:-1]), args[-1]
    return tuple(args), kwargs


def nameless_dimensions(dynamic_shapes: Any) -> tuple[Any, bool]:
    """The shapes for torch.export, which takes no names of dimensions; whether there were any."""
    shapes, is_named = exporter("_dynamic_shapes", "convert_str_to_export_dim")(dynamic_shapes)
    return shapes, bool(is_named)


def is_open_hint(dim: Any) -> bool:
    """Whether it is Dim.AUTO or Dim.DYNAMIC, with bounds or without."""
    hint = private("torch.export.dynamic_shapes", "_DimHint")
    return isinstance(dim, hint) and dim.type.name != "STATIC"


def rename(program: Any, inputs: Any, outputs: Any, dynamic_shapes: Any) -> dict[str, str]:
    """Gives inputs, outputs and dimensions the names that the user wants; the dimensions' are
    returned, by torch's own names for them."""
    names: dict[str, str] = {}
    _write_constants(program.model)
    if inputs:
        exporter("_ir_passes", "rename_inputs")(program.model, list(inputs))
    if outputs:
        exporter("_ir_passes", "rename_outputs")(program.model, list(outputs))
    if dynamic_shapes is not None:
        with warnings.catch_warnings():
            same = r"# The axis name: (\w+) will not be used.* axis: \1\."
            warnings.filterwarnings("ignore", same)  # one name for one size is as it should be
            names = exporter("_dynamic_shapes", "create_rename_mapping")(
                program.model.graph.inputs, dynamic_shapes
            )
        exporter("_ir_passes", "rename_axis")(program.model, names)
    return names


def _write_constants(model: Any) -> None:
    """Sizes that torch turned out to know are numbers, not symbols of that name."""
    for value in exporter("_ir_passes", "_all_values")(model):
        for axis, size in enumerate(value.shape or ()):
            if str(getattr(size, "value", None)).isdecimal():
                value.shape[axis] = int(size.value)


# Capture


def _interned() -> dict[str, int]:
    """The names of files that torch's traces have as numbers; where it keeps them."""
    try:
        return dict(private("torch._logging.structured", "INTERN_TABLE"))
    except Moved:  # the report does without
        return {}


@dataclass(frozen=True)
class Specialisation:
    """Where a draft of an export took the example's way."""

    text: str  #: "file, line 3: code: x is True"
    expression: str
    sources: tuple[str, ...]  #: of the sizes in it, such as "L['x'].size()[0]"

    def fixes(self, parameter: str, axis: int | None) -> bool:
        """Whether it says what a size of that parameter is."""
        size = "" if axis is None else f".size()[{axis}]"
        return self.expression.startswith("Eq(") and any(
            source.startswith(f"L['{parameter}']") and source.endswith(size)
            for source in self.sources
        )


def specialisations(program: Any) -> list[Specialisation]:
    report: Any = getattr(program, "_report", None)
    files = {number: name for name, number in _interned().items()}
    found = []
    for failure in getattr(report, "failures", ()):
        data = failure.data
        stack = data.get("user_stack") or [{}]
        last = stack[-1]
        file = f"{files[last['filename']]}, " if last.get("filename") in files else ""
        where = f"{file}line {last['line']}: {last.get('loc')}: " if "line" in last else ""
        what = data.get("expr") or data.get("op") or data.get("reason") or ""
        taken = f" is {data['result']}" if "result" in data else ""
        kind = str(getattr(failure.failure_type, "name", failure.failure_type))
        text = f"{where}{kind.lower().replace('_', ' ')}: {what}{taken}"
        sources = (data.get("symbol_to_sources") or {}).values()
        found.append(Specialisation(text, str(what), tuple(map(str, sources))))
    return found


def is_refused_size(error: BaseException | None) -> bool:
    """Whether torch.export says that the sizes of the example, or what the model does with them,
    contradict `dynamic_shapes`."""
    if isinstance(
        error, private("torch.fx.experimental.symbolic_shapes", "ConstraintViolationError")
    ):
        return True
    kind = getattr(getattr(error, "error_type", None), "name", "")
    is_about = kind == "INVALID_INPUT" and "dynamic_shapes" in str(error)
    return kind == "CONSTRAINT_VIOLATION" or is_about


@contextmanager
def fake_functions(
    functions: Mapping[Any, Callable[..., Any]], decompositions: Mapping[Any, Callable[..., Any]]
) -> Iterator[None]:
    """Makes torch use these functions for operators on fake tensors, where it has none itself, and
    these decompositions in the place of its own."""
    composite = private("torch._C", "DispatchKey").CompositeImplicitAutograd
    known = private("torch._subclasses.fake_impls", "op_implementations_dict")
    added = {one: function for one, function in functions.items() if one not in known}
    targets = {**added, **decompositions}
    before = {one: dict(one.py_kernels) for one in targets}
    for target, function in targets.items():
        if target.has_kernel_for_dispatch_key(composite):
            target.py_kernels[composite] = function  # else it would be taken apart as ever
        if target in added:
            known[target] = _as_fake(function)
        target._dispatch_cache.clear()
    try:
        yield
    finally:
        for target in targets:
            if target in added:
                known.pop(target, None)
            target.py_kernels.clear()
            target.py_kernels.update(before[target])
            target._dispatch_cache.clear()


def _as_fake(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(mode: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        with mode:
            return function(*args, **kwargs)

    return run


def onnx_type(dtype: torch.dtype) -> int:
    """The number of ONNX's type."""
    return int(exporter("_core", "torch_dtype_to_onnx_dtype")(dtype))


# Operators of ours in torch (torch.library)


def destroy(library: torch.library.Library) -> None:
    """Takes back all that was defined by a library, so that it can be defined anew."""
    if not hasattr(library, "_destroy"):
        raise moved("torch.library.Library._destroy")
    library._destroy()  # type: ignore[no-untyped-call]


def below_autograd() -> Any:
    """A context in which operators run as if nothing wanted a gradient: their kernels, or what is
    on below autograd, such as the tensors and modes that trace a program."""
    return private("torch._C", "_AutoDispatchBelowAutograd")()


def apply_function(function: type[torch.autograd.Function], *args: Any) -> Any:
    """Calls an autograd function from a kernel for autograd. Inside of torch.func.grad and the like
    torch is at the level of one of them there, as for kernels in C++; `apply`, which is for callers
    outside, would begin with the outermost anew."""
    if private("torch._C", "_are_functorch_transforms_active")():
        base: Any = super(torch.autograd.Function, function)
        with private("torch._functorch.utils", "enable_single_level_autograd_function")():
            return base.apply(*args)
    return function.apply(*args)  # type: ignore[no-untyped-call]


def forward_mode() -> dict[str, Any]:
    """The names of torch.autograd.forward_ad; `_current_level` is above -1 inside of its mode."""
    private("torch.autograd.forward_ad", "_current_level")
    names: dict[str, Any] = vars(private("torch.autograd.forward_ad"))
    return names


def parallel_for() -> int:
    """The address of libtorch's function for loops in several threads; 0 where it has none."""
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    try:
        library = ctypes.CDLL(os.path.join(folder, "libtorch_cpu.so"))
        return ctypes.cast(library.torch_parallel_for, ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0


def count_modes() -> Callable[[], int]:
    """A function of C that tells how many modes see every operator of this thread."""
    found: Callable[[], int] = private("torch._C", "_len_torch_dispatch_stack")
    return found


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


# The registry of the exporter.


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
    call.__dict__["__wrapped__"] = function
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


def arguments_text(program: torch.export.ExportedProgram) -> str:
    """How the arguments of a program are built, "*" for each tensor or number: "(*, {'a': *})"."""
    structure = program.call_spec.in_spec
    stars = [_Star() for _ in range(structure.num_leaves)]
    args, kwargs = unflatten(stars, structure)
    named = [f"{name}={value}" for name, value in kwargs.items()]
    return f"({', '.join([*map(str, args), *named])})"


class _Star:
    def __repr__(self) -> str:
        return "*"


@contextmanager
def undoing_transforms() -> Iterator[None]:
    """Takes back the torch.func transforms (grad, vmap) that a capture which fails in the midst of
    them leaves on, and that would spoil whatever comes after."""
    functorch, hooks = private("torch._C", "_functorch"), private("torch._C", "_autograd")
    try:
        depth = functorch.get_dynamic_layer_stack_depth()
        undo = functorch.pop_dynamic_layer_stack_and_undo_to_depth
        hooked = hooks._saved_tensors_hooks_get_disabled_error_message()
        enable, disable = hooks._saved_tensors_hooks_enable, hooks._saved_tensors_hooks_disable
    except AttributeError as error:
        raise moved("torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth") from error
    try:
        yield
    finally:
        if functorch.get_dynamic_layer_stack_depth() > depth:
            undo(depth)
        if hooked != hooks._saved_tensors_hooks_get_disabled_error_message():
            enable() if hooked is None else disable(hooked)


def fake_mode() -> Any:
    """A mode under which tensors have no data."""
    environment = private("torch.fx.experimental.symbolic_shapes", "ShapeEnv")(
        allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False
    )
    made = private("torch._subclasses.fake_tensor", "FakeTensorMode")
    return made(allow_non_fake_inputs=True, shape_env=environment)


def is_fake(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, private("torch._subclasses.fake_tensor", "FakeTensor"))


def has_fakes(tree: Any) -> bool:
    """Whether some tensor has no data."""
    tensors = [one for one in tree_leaves(tree) if isinstance(one, torch.Tensor)]
    return any(is_fake(one) or one.is_meta for one in tensors)
