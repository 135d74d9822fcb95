"""All private names of torch that Opgraft uses, each guarded: what moves is named in the error."""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
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
