"""Packs: libraries of operators written in C++, which `opgraft build` makes."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from opgraft import _torch_calls
from opgraft._library import shipped_packs
from opgraft._modules import names
from opgraft._when_imported import tell_torch, when_imported

if TYPE_CHECKING:
    from opgraft import _pyop

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


def _load_shipped(is_wanted: Callable[[_pyop.Schema], bool]) -> None:
    for pack in dict.fromkeys(one.pack for one in shipped() if is_wanted(one)):
        load(pack)


@functools.cache
def shipped() -> tuple[_pyop.Schema, ...]:
    """The operators of the packs that come with Opgraft, whether these are loaded or not."""
    return tuple(one for pack in shipped_packs() for one in read(pack))


def torch_calls(operator: _pyop.Schema) -> tuple[_torch_calls.TorchCall, ...]:
    """What it can stand for in torch."""
    return _torch_calls.of_pack(
        operator.pack, operator.full_name, operator.since_version, operator.torch_name
    )


def version_of(operator: _pyop.Schema) -> int:
    return operator.since_version


def operators() -> list[_pyop.Schema]:
    """Those of all packs that are loaded, every version of them."""
    from opgraft import _pyop

    return _pyop.pack_operators()


def read(library: str | os.PathLike[str]) -> list[_pyop.Schema]:
    """Those of a library, though no session is to find them; none where it is no pack."""
    from opgraft import _pyop

    return _pyop.read_pack(os.fsencode(os.path.realpath(os.fsdecode(library))))


def _tell_onnx() -> None:
    from opgraft import _onnx

    _onnx.register_native()
