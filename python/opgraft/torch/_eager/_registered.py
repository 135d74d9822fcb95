"""The Opgraft operators that are registered with torch: `torch.ops.<namespace>.<name>`."""

from __future__ import annotations

import difflib
import re
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from opgraft import _pyop
from opgraft._base._errors import Error
from opgraft._declare import _declare, _packs
from opgraft.torch import _private
from opgraft.torch._eager import _eager, _schema
from opgraft.torch._eager._schema import TorchSchema


@dataclass
class TorchOperator:
    """An operator that is registered with torch."""

    schema: TorchSchema
    #: What it was made from. If this changes for a name, the operator is replaced.
    source: _declare.Operator | tuple[str, int]
    #: "namespace::name", its name in torch.
    qualified: str
    library: torch.library.Library
    overload: _private.OpOverload
    #: The kernel that runs it; set when it is installed.
    kernel: _pyop.TorchKernel = field(init=False)


_lock = threading.RLock()
_known: dict[str, TorchOperator] = {}
#: By "domain::Name": the source of an operator that cannot be registered, and why.
_refused: dict[str, tuple[Any, str]] = {}


def operator(name: str) -> _private.OpOverload:
    """Returns the operator `domain::Name` as a torch operator,
    `torch.ops.<namespace>.<name>.default`. It is declared by `@opgraft.op` or is in a pack that is
    loaded. The packs that come with Opgraft are loaded when one of their operators is asked for.

    >>> opgraft.torch.operator("mylibrary::AddAndRound")(torch.tensor([0.3, 0.8]))
    tensor([1., 2.])
    """
    return find(name).overload


def find(name: str) -> TorchOperator:
    full_name = name.removeprefix("ai.onnx") if name.startswith("ai.onnx::") else name
    register_all()
    if full_name not in _known:
        _packs.load_asked_for(full_name)
        register_all()
    with _lock:
        if full_name in _known:
            return _known[full_name]
        if full_name in _refused:
            raise Error(_refused[full_name][1])
        close = difflib.get_close_matches(full_name, _known)
    raise Error(
        f"there is no operator {name!r}; expected 'domain::Name' of an operator that is declared "
        "by @opgraft.op or is in a pack that is loaded"
        + (f". Did you mean {close[0]!r}?" if close else "")
    )


def known() -> list[TorchOperator]:
    """Returns all registered operators, in the order in which they were registered."""
    register_all()
    with _lock:
        return list(_known.values())


def register_all() -> None:
    """Registers the operators that are new or have changed."""
    with _lock:
        for declared in _declare.operators():
            _register(declared.full_name, declared, partial(_schema.of, declared.schema))
        newest = {one.full_name: one for one in sorted(_packs.operators(), key=_version)}
        for native in newest.values():
            source = native.pack, native.since_version
            _register(native.full_name, source, partial(_schema.of, native))


def _is_on_gpu(source: _declare.Operator | tuple[str, int]) -> bool:
    return isinstance(source, _declare.Operator) and source.schema.on_gpu


def _version(operator: _pyop.Schema) -> int:
    return operator.since_version


def torch_name(full_name: str) -> str:
    """Returns `namespace::name` of an operator; an underscore replaces all other characters."""
    domain, _, name = full_name.partition("::")
    namespace = re.sub(r"\W", "_", domain or "ai.onnx", flags=re.ASCII)
    if namespace[:1].isdigit():
        namespace = f"_{namespace}"
    return f"{namespace}::{re.sub(r'[^0-9A-Za-z_]', '_', name)}"


def _register(full_name: str, source: Any, read: Callable[[], TorchSchema]) -> None:
    before = _known.get(full_name)
    if (before is not None and before.source == source) or (
        full_name in _refused and _refused[full_name][0] == source
    ):
        return
    _refused.pop(full_name, None)
    try:
        schema = read()
        is_alike = before is not None and _is_on_gpu(before.source) == _is_on_gpu(source)
        if before is not None and is_alike and before.schema.text == schema.text:
            before.schema, before.source = schema, source
            _eager.replace(before)
            return
        if before is not None:
            _private.destroy(_known.pop(full_name).library)
        _known[full_name] = _define(schema, source)
    except _schema.Unfit as unfit:
        _refused[full_name] = source, f"{full_name} cannot be an operator of torch's: {unfit}"
    except Exception as error:  # torch has its own reasons to refuse
        _refused[full_name] = source, f"{full_name} cannot be an operator of torch's: {error}"
        warnings.warn(_refused[full_name][1], stacklevel=4)


def _define(schema: TorchSchema, source: Any) -> TorchOperator:
    qualified = torch_name(schema.full_name)
    other = next((one for one in _known.values() if one.qualified == qualified), None)
    if other is not None:
        raise Error(
            f"it would be torch.ops.{qualified.replace('::', '.')}, which "
            f"{other.schema.full_name} is already. Fix: rename one of them"
        )
    namespace, _, name = qualified.partition("::")
    if hasattr(getattr(torch.ops, namespace), name):
        raise Error(
            f"torch.ops.{namespace}.{name} exists already, from another library. Fix: "
            "give the operator another domain or name"
        )
    library = torch.library.Library(namespace, "FRAGMENT")  # type: ignore[no-untyped-call]
    try:
        tags = (torch.Tag.pt2_compliant_tag,)
        library.define(name + schema.text, tags=tags)  # type: ignore[no-untyped-call]
        overload = getattr(getattr(torch.ops, namespace), name).default
        made = TorchOperator(schema, source, qualified, library, overload)
        _eager.install(made)
    except BaseException:
        _private.destroy(library)
        raise
    return made
