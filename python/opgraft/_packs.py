"""Packs: libraries of operators written in C++, which `opgraft build` makes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from opgraft._library import shipped_packs
from opgraft._modules import names
from opgraft._when_imported import tell_torch, when_imported

if TYPE_CHECKING:
    from opgraft import _pyop

#: That of all operators in the packs that come with Opgraft.
_SHIPPED_DOMAIN = "com.microsoft"


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
    when_imported("onnx", _tell_onnx)
    tell_torch()
    found = dict.fromkeys(one.full_name for one in operators() if one.pack == path)
    return Pack(path, tuple(found))


def load_preferred(prefer: Iterable[str]) -> list[str]:
    """The entries of `prefer`; where packs lack one, those are loaded that come with Opgraft.

    Not before: they have kernels for what ONNX Runtime has its own for, and a pack of the program's
    own may have operators of the same names.
    """
    entries = names(prefer, "prefer", 'names such as ["com.microsoft::Gelu"]', "an operator")
    if entries and not {one.full_name for one in operators()}.issuperset(entries):
        load_shipped()
    return entries


def load_asked_for(full_name: str) -> None:
    """Loads the packs that come with Opgraft where an operator is asked for by its name that may be
    in them, and that no other pack has."""
    if full_name.startswith(f"{_SHIPPED_DOMAIN}::") and full_name not in {
        one.full_name for one in operators()
    }:
        load_shipped()


def load_shipped() -> None:
    for pack in shipped_packs():
        load(pack)


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
