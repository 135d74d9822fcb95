"""What torch.onnx.export is made of."""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from opgraft.torch._private.lookup import moved, private
from opgraft.torch._private.operators import OpOverload, find_operator, name_of

_EXPORTER = "torch.onnx._internal.exporter"
_registries: dict[tuple[int, bool], Any] = {}
#: torch.export is for one thread at a time.
export_lock = threading.RLock()
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
            _drop_second_names(_registries[key])
        finally:
            logger.setLevel(level)
    return copy_registry(_registries[key])


#: Second names of operators. torch translates them, but makes its conversions of types, as of an
#: integer that is added to a float, for the first names alone: to these they are decomposed.
_SECOND_NAMES = frozenset(
    """aten::divide aten::greater aten::greater_equal aten::less aten::less_equal aten::multiply
    aten::special_erf aten::special_erfc aten::special_sinc aten::subtract""".split()
)


def _drop_second_names(registry: Any) -> None:
    for name in list(registry.functions):
        if str(name).partition(".")[0] in _SECOND_NAMES:
            del registry.functions[name]


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


def decomposition_of(target: Any) -> Any:
    """What torch takes an operator apart by; None where it has nothing of its own for that."""
    return private("torch._decomp", "decomposition_table").get(target)


def registered_name(target: Any) -> Any:
    """By which a registry has the translations of an operator."""
    return str(target.name()) if isinstance(target, OpOverload) else target  # type: ignore[no-untyped-call]


def decompose(
    program: Any, registry: Any, bodies: Mapping[Any, Callable[..., Any]] | None = None
) -> Any:
    """The program in terms of what the registry has, with explicit conversions of types; operators
    of others are decomposed into their bodies.

    Without gradients: torch goes through the graph several times, in some of them with gradients
    unless they are off. Attention with a mask that is learned has other kernels then, with other
    strides, and a view that was made for the ones is refused for the others."""
    forget_fresh_symbols(program)
    into_bodies = _decomposing(bodies or {})
    with warnings.catch_warnings(), torch.no_grad(), into_bodies, _listing_operators_once():
        warnings.simplefilter("ignore", FutureWarning)  # of its own ways
        prepare = exporter("_core", "_prepare_exported_program_for_export")
        prepared = prepare(program, registry=registry)
    _name_outputs(prepared)
    return prepared


@contextmanager
def _decomposing(bodies: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """Has torch's exporter decompose operators into their bodies, for this thread alone."""
    module = private(f"{_EXPORTER}._decomp")
    before = exporter("_decomp", "create_onnx_friendly_decomposition_table")
    owner = threading.get_ident()

    def create(registered: Any) -> Any:
        table = before(registered)
        if threading.get_ident() == owner:
            table.update(bodies)
        return table

    module.create_onnx_friendly_decomposition_table = create
    try:
        yield
    finally:
        module.create_onnx_friendly_decomposition_table = before


@contextmanager
def _listing_operators_once() -> Iterator[None]:
    """Has torch look through its list of composite operators once, for this thread alone.

    It does so twice for each namespace of torch.ops, since operators may be added at any time; that
    takes a third of the time of a small export. Nothing adds operators while a program is
    decomposed. A torch without this function is left alone."""
    module = private("torch._export.utils")
    before = getattr(module, "_materialize_cpp_cia_ops", None)
    if before is None:
        yield
        return
    owner = threading.get_ident()
    is_listed = False

    def list_operators() -> None:
        nonlocal is_listed
        if threading.get_ident() != owner:
            before()
        elif not is_listed:
            before()
            is_listed = True

    module._materialize_cpp_cia_ops = list_operators
    try:
        yield
    finally:
        module._materialize_cpp_cia_ops = before


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
    with export_lock:
        before = getattr(flags, "_is_onnx_exporting", None)
        if before is None:
            raise moved(f"{_EXPORTER}._flags._is_onnx_exporting")
        flags._is_onnx_exporting = True
        try:
            yield
        finally:
            flags._is_onnx_exporting = before


@contextmanager
def in_use() -> Iterator[None]:
    """Lets torch.onnx.is_in_onnx_export() say no for a while: libraries compute other things, and
    not always right ones, where it says yes."""
    flags = private(f"{_EXPORTER}._flags")
    before = flags._is_onnx_exporting
    flags._is_onnx_exporting = False
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


def add_translation(registry: Any, target: Any, translation: Translate) -> None:
    """Places a translation ahead of torch's own."""
    if isinstance(translation, Sequence):
        raise TypeError("custom_translation_table: expected one function for each operator")
    registry.register_op(target, translation, is_complex=False)


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


def onnx_type(dtype: torch.dtype) -> int:
    """The number of ONNX's type."""
    return int(exporter("_core", "torch_dtype_to_onnx_dtype")(dtype))
