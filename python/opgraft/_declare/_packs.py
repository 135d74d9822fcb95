"""Loads packs: libraries of operators written in C++, which `opgraft build` makes."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from opgraft._base._library import shipped_packs
from opgraft._base._log import tell
from opgraft._base._modules import names
from opgraft._base._when_imported import tell_torch, when_imported
from opgraft._declare import _torch_calls

if TYPE_CHECKING:
    from opgraft import _pyop

#: The paths of the packs that are loaded.
_loaded: set[str] = set()


class Pack(NamedTuple):
    """A loaded pack.

    >>> opgraft.load("libmy_op.so").operators
    ('my.domain::Scale',)
    """

    path: str
    #: "domain::Name" of each, in the order of their declarations.
    operators: tuple[str, ...]


def load(pack: str | os.PathLike[str]) -> Pack:
    """Loads a pack for the rest of the process: sessions find its operators, and so does onnx
    (checker, shape inference, reference evaluation). Loading it again has no effect.

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
    tell("packs", "loaded %s: %s", path, ", ".join(found))
    return Pack(path, tuple(found))


def load_preferred(prefer: Iterable[str]) -> list[str]:
    """Returns the entries of `prefer`. For an entry that no loaded pack has, loads the packs that
    come with Opgraft and have it.

    They are not loaded earlier, because ONNX Runtime has its own kernels for their operators, and a
    pack of the program may have operators of the same names.
    """
    entries = names(prefer, "prefer", 'names such as ["com.microsoft::Gelu"]', "an operator")
    if entries:
        missing = set(entries) - {one.full_name for one in operators()}
        _load_shipped(lambda one: bool(missing.intersection((one.domain, one.full_name))))
    return entries


def load_asked_for(full_name: str) -> None:
    """Loads the packs that come with Opgraft and have operators of this operator's domain, unless
    a loaded pack has the operator."""
    if full_name not in {one.full_name for one in operators()}:
        domain = full_name.partition("::")[0]
        _load_shipped(lambda one: one.domain == domain)


def load_needed(packs: Mapping[str, str]) -> bool:
    """Loads the packs that a model was prepared for, if they are not loaded yet, which may be so
    for those that come with Opgraft. Returns whether it loaded any.

    Also loads the other packs that share a domain, because session options accept no more operators
    of a domain once it is registered with them.
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
    """Returns the calls of torch that an operator can replace."""
    return _torch_calls.of_pack(
        operator.pack, operator.full_name, operator.since_version, operator.torch_name
    )


def version_of(operator: _pyop.Schema) -> int:
    return operator.since_version


def operators() -> list[_pyop.Schema]:
    """Returns the operators of all loaded packs, in every version."""
    from opgraft import _pyop

    return _pyop.pack_operators()


def read(library: str | os.PathLike[str]) -> list[_pyop.Schema]:
    """Returns the operators of a library without loading it; none if it is not a pack."""
    from opgraft import _pyop

    return _pyop.read_pack(os.fsencode(os.path.realpath(os.fsdecode(library))))


def _tell_onnx() -> None:
    from opgraft._declare import _in_onnx

    _in_onnx.register_native()
