"""The parts of torch.onnx.export that Opgraft uses: its registry, decomposition, translation."""

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
#: torch.export is not thread-safe.
export_lock = threading.RLock()
#: Translates a node of the graph to ONNX.
Translate = Callable[..., Any]


def exporter(module: str, name: str) -> Any:
    return private(f"{_EXPORTER}.{module}", name)


def default_opset() -> int:
    return int(private("torch.onnx._constants", "ONNX_DEFAULT_OPSET"))


def lowest_opset() -> int:
    """Returns the opset that torch's translations are written in."""
    return int(exporter("_constants", "TORCHLIB_OPSET"))


def torch_registry(opset_version: int) -> Any:
    """Returns a registry with torch's translations, to which others can be added.

    It is a copy of one that is built only once, since that takes most of a second. It includes
    torchvision's translations if torchvision has been imported."""
    key = opset_version, "torchvision" in sys.modules
    made = exporter("_registration", "ONNXRegistry")
    if key not in _registries:
        logger = logging.getLogger(made.__module__)
        level = logger.level
        logger.setLevel(logging.ERROR)  # torch warns if torchvision is not installed
        try:
            _registries[key] = made.from_torchlib(opset_version=opset_version)
        finally:
            logger.setLevel(level)
    return copy_registry(_registries[key])


def new_registry(opset_version: int) -> Any:
    """Returns the same registry without the second names of operators."""
    registry = torch_registry(opset_version)
    _drop_second_names(registry)
    return registry


@contextmanager
def reading_torch_once(opset_version: int) -> Iterator[None]:
    """Makes torch.onnx.export with this opset use a copy of the kept registry, in this thread only,
    instead of building one for each export."""
    kept = torch_registry(max(opset_version, lowest_opset()))
    made = type(kept)
    before = made.__dict__["from_torchlib"]
    owner = threading.get_ident()

    def from_torchlib(cls: Any, opset_version: int = kept.opset_version) -> Any:
        if threading.get_ident() == owner and opset_version == kept.opset_version:
            return copy_registry(kept)
        return before.__func__(cls, opset_version)

    made.from_torchlib = classmethod(from_torchlib)
    try:
        yield
    finally:
        made.from_torchlib = before


#: Second names of operators. torch translates them, but converts types (of an integer added to a
#: float) only for the first names. So these are decomposed to the first names instead.
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
    """Marks an operator in the registry as translated, so that it is not decomposed."""
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
    """Whether torch has a decomposition of an operator, which its translation replaces."""
    return target in private("torch._decomp", "decomposition_table")


def decomposition_of(target: Any) -> Any:
    """Returns torch's decomposition of an operator, or None."""
    return private("torch._decomp", "decomposition_table").get(target)


def registered_name(target: Any) -> Any:
    """Returns the key of an operator in a registry."""
    return str(target.name()) if isinstance(target, OpOverload) else target  # type: ignore[no-untyped-call]


def decompose(
    program: Any, registry: Any, bodies: Mapping[Any, Callable[..., Any]] | None = None
) -> Any:
    """Decomposes a program into the registry's operators, with explicit conversions of types, and
    the operators in `bodies` into their bodies.

    Gradients are turned off. Otherwise some of torch's several passes would run with gradients,
    where attention with a learned mask uses other kernels with other strides, and a view made in
    one pass would be refused in another."""
    forget_fresh_symbols(program)
    into_bodies = _decomposing(bodies or {})
    with warnings.catch_warnings(), torch.no_grad(), into_bodies, _listing_operators_once():
        warnings.simplefilter("ignore", FutureWarning)  # about torch's own code
        prepare = exporter("_core", "_prepare_exported_program_for_export")
        prepared = prepare(program, registry=registry)
    _name_outputs(prepared)
    return prepared


@contextmanager
def _decomposing(bodies: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """Makes torch's exporter decompose operators into their bodies, in this thread only."""
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
    """Makes torch list its composite operators only once, in this thread only.

    torch lists them twice for each namespace of torch.ops, since operators may be added at any
    time. That takes a third of the time of a small export, and nothing adds operators while a
    program is decomposed. Versions of torch without this function are not changed."""
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
    """Makes the signature of a program name its output nodes. If torch adds a conversion of a
    result, as for abs of float16, the signature still names the node before the conversion."""
    output = next(node for node in program.graph.nodes if node.op == "output")
    for spec, node in zip(program.graph_signature.output_specs, output.args[0], strict=True):
        if isinstance(node, torch.fx.Node) and spec.arg.name != node.name:
            spec.arg = type(spec.arg)(name=node.name)


def forget_fresh_symbols(program: Any) -> None:
    """Clears symbols that torch has not yet assigned. Without this, a program whose sizes depend on
    data can be decomposed only once."""
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
    """Returns the translation that a user added to the registry for a node, or None."""
    known = registry.get_decomps(node.target)
    if not known or not known[0].is_custom:
        return None
    values = [one.meta.get("val") for one in node.all_input_nodes]
    if any(isinstance(one, torch.Tensor) and one.is_complex() for one in values):
        return None  # added translations are for real numbers, as in torch.onnx.export
    added: Translate = known[0].onnx_function
    return added


def translate(program: Any, registry: Any, choose: Callable[[torch.fx.Node], Translate]) -> Any:
    """Translates a decomposed program to ONNX. `choose` returns each node's translation."""
    with _choosing(choose), _without_constants(program), _without_operators(program):
        return exporter("_core", "_exported_program_to_onnx_program")(program, registry=registry)


@contextmanager
def _without_constants(program: Any) -> Iterator[None]:
    """Omits results that are Python numbers, on which torch's translation fails."""
    output = next(node for node in program.graph.nodes if node.op == "output")
    before = output.args
    output.args = (tuple(one for one in before[0] if isinstance(one, torch.fx.Node)),)
    try:
        yield
    finally:
        output.args = before


#: The key in a node's meta for the operator that it calls through a higher-order operator.
CALLED = "opgraft.called"


@contextmanager
def _without_operators(program: Any) -> Iterator[None]:
    """Omits arguments that are operators, on which torch's translation fails too."""
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
    """Whether the target calls an operator that writes to its arguments, and returns copies."""
    return getattr(target, "__name__", "") == "auto_functionalized_v2"


@contextmanager
def _choosing(choose: Callable[[torch.fx.Node], Translate]) -> Iterator[None]:
    """Replaces torch's dispatcher by `choose`, in this thread only."""
    dispatching = private(f"{_EXPORTER}._dispatching")
    original = exporter("_dispatching", "dispatch")
    before = dispatching.dispatch
    owner = threading.get_ident()

    def dispatch(node: torch.fx.Node, registry: Any) -> tuple[Translate | None, str]:
        if threading.get_ident() != owner:  # an export without Opgraft
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
    """Locks out other exporting threads, and makes torch.onnx.is_in_onnx_export() return True."""
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
    """Makes torch.onnx.is_in_onnx_export() return False inside the block. If it returns True, some
    libraries compute something else, which is not always right."""
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
    """Returns the name of the node in the captured program that a node was decomposed from."""
    name = node.name
    sources = node.meta.get("from_node")
    while sources:
        try:
            name, sources = sources[-1].name, sources[-1].from_node
        except (AttributeError, IndexError, TypeError) as error:
            raise moved('fx.Node.meta["from_node"]') from error
    return str(name)


def original(node: torch.fx.Node) -> Any:
    """Returns the ATen operator that a node was last decomposed from. torch may store a copy of it,
    which is not equal to the operator in the decomposition table, so it is looked up by name."""
    found = node.meta.get("original_aten")
    return find_operator(*name_of(found)) if isinstance(found, OpOverload) else found


def recorder() -> Any:
    """Returns the object that records a translation's nodes, while torch calls the translation."""
    from onnxscript import evaluator

    found = evaluator.default()
    if not isinstance(found, exporter("_building", "OpRecorder")):
        raise moved(f"{_EXPORTER}._building.OpRecorder")
    return found


def new_value() -> Any:
    """Returns a value of the ONNX graph that translations can compute with."""
    return exporter("_tensors", "SymbolicTensor")(recorder().opset)


def add_translation(registry: Any, target: Any, translation: Translate) -> None:
    """Adds a translation that takes precedence over torch's own."""
    if isinstance(translation, Sequence):
        raise TypeError("custom_translation_table: expected one function for each operator")
    registry.register_op(target, translation, is_complex=False)


def rename(program: Any, inputs: Any, outputs: Any, dynamic_shapes: Any) -> dict[str, str]:
    """Gives inputs, outputs and dimensions the user's names. Returns the names of the dimensions,
    by torch's names for them."""
    names: dict[str, str] = {}
    _write_constants(program.model)
    if inputs:
        exporter("_ir_passes", "rename_inputs")(program.model, list(inputs))
    if outputs:
        exporter("_ir_passes", "rename_outputs")(program.model, list(outputs))
    if dynamic_shapes is not None:
        with warnings.catch_warnings():
            same = r"# The axis name: (\w+) will not be used.* axis: \1\."
            warnings.filterwarnings("ignore", same)  # one name for equal sizes is right
            names = exporter("_dynamic_shapes", "create_rename_mapping")(
                program.model.graph.inputs, dynamic_shapes
            )
        exporter("_ir_passes", "rename_axis")(program.model, names)
    return names


def _write_constants(model: Any) -> None:
    """Turns symbols whose name is a number into numbers: sizes that torch did know after all."""
    for value in exporter("_ir_passes", "_all_values")(model):
        for axis, size in enumerate(value.shape or ()):
            if str(getattr(size, "value", None)).isdecimal():
                value.shape[axis] = int(size.value)


def onnx_type(dtype: torch.dtype) -> int:
    """Returns ONNX's number for a type."""
    return int(exporter("_core", "torch_dtype_to_onnx_dtype")(dtype))
