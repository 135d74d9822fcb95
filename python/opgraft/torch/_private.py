"""All private names of torch that Opgraft uses, each guarded: what moves is named in the error."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from opgraft._errors import UnavailableError


def moved(name: str) -> UnavailableError:
    """The error for a private name that this version of torch does not have."""
    return UnavailableError(
        f"torch {torch.__version__} has no {name}, which opgraft.torch needs; "
        "use torch 2.13, with which it is tested, or a newer Opgraft"
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
_translating = threading.RLock()

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
        _registries[key] = made.from_torchlib(opset_version=opset_version)
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
    registry.functions.setdefault(target.name(), []).append(
        known(
            onnx_function=keep_whole,
            fx_target=target,
            signature=None,
            is_custom=False,
            skip_signature_inference=True,
        )
    )


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
    return exporter("_core", "_prepare_exported_program_for_export")(program, registry=registry)


def forget_fresh_symbols(program: Any) -> None:
    """Without this a program whose sizes depend on data can be decomposed once only."""
    for node in program.graph.nodes:
        environment = getattr(getattr(node.meta.get("val"), "fake_mode", None), "shape_env", None)
        if environment is not None:
            environment.pending_fresh_unbacked_symbols.clear()
            return


def find_translation(node: torch.fx.Node, registry: Any) -> Translate | None:
    translation: Translate | None = exporter("_dispatching", "dispatch")(node, registry)[0]
    return translation


def translate(program: Any, registry: Any, choose: Callable[[torch.fx.Node], Translate]) -> Any:
    """torch's translation of a decomposed program to ONNX; `choose` says how for each node."""
    with _choosing(choose):
        return exporter("_core", "_exported_program_to_onnx_program")(program, registry=registry)


@contextmanager
def _choosing(choose: Callable[[torch.fx.Node], Translate]) -> Iterator[None]:
    """Puts `choose` in the place of torch's own dispatcher, for this thread alone."""
    dispatching = private(f"{_EXPORTER}._dispatching")
    with _translating:
        original = exporter("_dispatching", "dispatch")
        before = dispatching.dispatch
        owner = threading.get_ident()

        def dispatch(node: torch.fx.Node, registry: Any) -> tuple[Translate | None, str]:
            if threading.get_ident() != owner:
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
    """Lets torch.onnx.is_in_onnx_export() say yes."""
    flags = private(f"{_EXPORTER}._flags")
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


def is_custom(node: torch.fx.Node, registry: Any) -> bool:
    """Whether the translation that the registry finds for a node was added to it."""
    known = registry.get_decomps(node.target)
    return bool(known) and bool(known[0].is_custom)


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


def find_operator(name: str, overload: str) -> Any:
    """`torch.ops.<namespace>.<name>.<overload>`, or None."""
    namespace, _, rest = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), rest, None)
    return getattr(packet, overload or "default", None)


def is_defined_in_python(overload: OpOverload) -> bool:
    return definition_file(overload).endswith(".py")


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


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    return private("torch.utils._pytree", "tree_map")(function, tree)


def hint(size: torch.SymInt) -> int | None:
    """The size that a symbol has in the example it was traced with."""
    found = getattr(size.node, "hint", None)
    return None if found is None else int(found)


def flatten_call(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments of a call as the program has them: named ones in its own order."""
    leaves, shape = flatten((tuple(args), dict(kwargs)))
    expected = program.call_spec.in_spec
    if kwargs and shape != expected:
        order = expected.children_specs[1].context
        named = {name: kwargs[name] for name in order if name in kwargs}
        leaves, shape = flatten((tuple(args), named))
    return leaves


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


def rename(program: Any, inputs: Any, outputs: Any, dynamic_shapes: Any) -> None:
    """Gives inputs, outputs and dimensions the names that the user wants."""
    if inputs:
        exporter("_ir_passes", "rename_inputs")(program.model, list(inputs))
    if outputs:
        exporter("_ir_passes", "rename_outputs")(program.model, list(outputs))
    if dynamic_shapes is not None:
        names = exporter("_dynamic_shapes", "create_rename_mapping")(
            program.model.graph.inputs, dynamic_shapes
        )
        program.rename_axes(names)


# Capture


@contextmanager
def fake_functions(functions: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """Makes torch use these functions for operators on fake tensors, where it has none itself."""
    composite = private("torch._C", "DispatchKey").CompositeImplicitAutograd
    known = private("torch._subclasses.fake_impls", "op_implementations_dict")
    added = [one for one in functions if one not in known]
    before = {one: dict(one.py_kernels) for one in added}
    for target in added:
        if target.has_kernel_for_dispatch_key(composite):
            target.py_kernels[composite] = functions[target]  # else it would be taken apart first
        known[target] = _as_fake(functions[target])
        target._dispatch_cache.clear()
    try:
        yield
    finally:
        for target in added:
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


def count_modes() -> Callable[[], int]:
    """A function of C that tells how many modes see every operator of this thread."""
    found: Callable[[], int] = private("torch._C", "_len_torch_dispatch_stack")
    return found
