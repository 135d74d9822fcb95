"""Packs: libraries of operators written in C++, which `opgraft build` makes."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from opgraft import _errors, _torch_calls
from opgraft._library import library_path, shipped_packs
from opgraft._modules import names
from opgraft._when_imported import tell_torch, when_imported

#: The paths of the packs that are loaded.
_loaded: set[str] = set()


class Pack(NamedTuple):
    """A pack that is loaded.

    >>> opgraft.load("libmy_op.so").operators
    ('my.domain::Scale',)
    """

    path: str
    #: "domain::Name" of each, in the order of their declarations.
    operators: tuple[str, ...]


def load(pack: str | os.PathLike[str]) -> Pack:
    """Loads a pack for good: the sessions of this process find its operators, and so does onnx
    (checker, shape inference, reference evaluation). Loading it again changes nothing.

    >>> opgraft.load("libmy_op.so")
    Pack(path='.../libmy_op.so', operators=('my.domain::Scale',))
    """
    from opgraft import _pyop

    path = os.path.realpath(os.fsdecode(pack))
    # In this order: who prepares a model with the operators finds that the runtime has them.
    _load_into_library(path)
    _pyop.load_pack(os.fsencode(path))
    _loaded.add(path)
    when_imported("onnx", _tell_onnx)
    tell_torch()
    found = dict.fromkeys(one.full_name for one in operators() if one.pack == path)
    return Pack(path, tuple(found))


def load_preferred(prefer: Iterable[str]) -> list[str]:
    """The entries of `prefer`; where no pack has one, those are loaded that come with Opgraft and
    do.

    Not before: they have kernels for what ONNX Runtime has its own for, and a pack of the program's
    own may have operators of the same names.
    """
    entries = names(prefer, "prefer", 'names such as ["com.microsoft::Gelu"]', "an operator")
    if entries:
        missing = set(entries) - {one.full_name for one in operators()}
        _load_shipped(lambda one: bool(missing.intersection((one.domain, one.full_name))))
    return entries


def load_asked_for(full_name: str) -> None:
    """Loads the packs that come with Opgraft and have operators of a domain, where one is asked for
    by its name that may be in them, and that no other pack has."""
    if full_name not in {one.full_name for one in operators()}:
        domain = full_name.partition("::")[0]
        _load_shipped(lambda one: one.domain == domain)


def load_needed(packs: Mapping[str, str]) -> bool:
    """Loads the packs that a model was prepared for, by its operators: those that come with Opgraft
    may not be yet. Whether there were any.

    With them come the others that share a domain: session options take no more operators of a
    domain that they are registered with.
    """
    missing = {name: pack for name, pack in packs.items() if pack not in _loaded}
    if not missing:
        return False
    domains = {name.partition("::")[0] for name in missing}
    known = {one.full_name for one in operators()}
    beside = {one.pack for one in shipped() if one.domain in domains}
    beside -= {one.pack for one in shipped() if one.full_name in known}
    for pack in sorted({*missing.values(), *beside}):
        load(pack)
    return True


def _load_shipped(is_wanted: Callable[[NativeOperator], bool]) -> None:
    for pack in dict.fromkeys(one.pack for one in shipped() if is_wanted(one)):
        load(pack)


@functools.cache
def shipped() -> tuple[NativeOperator, ...]:
    """The operators of the packs that come with Opgraft, whether these are loaded or not."""
    return tuple(one for pack in shipped_packs() for one in read(pack))


def torch_calls(operator: NativeOperator) -> tuple[_torch_calls.TorchCall, ...]:
    """What it can stand for in torch."""
    return _torch_calls.of_pack(
        operator.pack, operator.full_name, operator.since_version, operator.torch_name
    )


def version_of(operator: NativeOperator) -> int:
    return operator.since_version


def _load_into_library(path: str) -> None:
    """libopgraft, which registers operators with ONNX Runtime, has a list of its own."""
    library = ctypes.CDLL(library_path())
    text = ctypes.c_char_p()
    library.opgraft_free.argtypes = [ctypes.c_char_p]
    kind = library.opgraft_load(ctypes.c_char_p(os.fsencode(path)), ctypes.byref(text))
    if kind == 0:
        return
    message = (text.value or b"").decode("utf-8", "replace")
    library.opgraft_free(text)
    raise _errors.of_kind(kind)(message)


class Parameter(NamedTuple):
    """An input or output."""

    name: str
    description: str
    occurrence: int
    type: int
    minimum: int


class Type(NamedTuple):
    name: str
    description: str
    allowed: list[int]
    is_tied: bool


class Attribute(NamedTuple):
    name: str
    description: str
    kind: int
    is_required: bool
    default: Any


class Kernel(NamedTuple):
    """What computes an operator, for one device and one choice of its types; 0: any."""

    device: str
    types: tuple[int, ...]


class NativeOperator(NamedTuple):
    """An operator of a pack, at one version."""

    domain: str
    name: str
    documentation: str
    torch_name: str
    since_version: int
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    types: tuple[Type, ...]
    attributes: tuple[Attribute, ...]
    #: What nodes of prepared models call it, as `full_name`.
    runtime_name: str
    has_shape_rule: bool
    kernels: tuple[Kernel, ...]
    pack: str

    @property
    def full_name(self) -> str:
        return f"{self.domain}::{self.name}"


def operators() -> list[NativeOperator]:
    """Those of all packs that are loaded, every version of them."""
    from opgraft import _pyop

    return [_operator(values) for values in _pyop.pack_operators()]


def read(library: str | os.PathLike[str]) -> list[NativeOperator]:
    """Those of a library, though no session is to find them; none where it is no pack."""
    from opgraft import _pyop

    path = os.path.realpath(os.fsdecode(library))
    return [_operator(values) for values in _pyop.read_pack(os.fsencode(path))]


def _operator(values: dict[str, Any]) -> NativeOperator:
    given = dict(values)
    given["inputs"] = tuple(Parameter(*one) for one in values["inputs"])
    given["outputs"] = tuple(Parameter(*one) for one in values["outputs"])
    given["types"] = tuple(Type(*one) for one in values["types"])
    given["attributes"] = tuple(Attribute(*one) for one in values["attributes"])
    given["kernels"] = tuple(Kernel(device, tuple(types)) for device, types in values["kernels"])
    return NativeOperator(**given)


def _tell_onnx() -> None:
    from opgraft import _onnx

    _onnx.register_native()
