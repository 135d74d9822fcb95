"""Symbolic functions: register_custom_op_symbolic, and the operators that they are used for."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opgraft._base._errors import Error
from opgraft.torch import _private
from opgraft.torch._legacy._symbolic_call import translation

#: Takes `g` and the arguments of the operator, and returns results of `g.op`.
Symbolic = Callable[..., Any]

# torch has several names for some operators: torch.export captures torch.inverse as aten::inverse,
# TorchScript captures it as aten::linalg_inv. A function that is registered for one name is used
# for the others too, unless they have their own. The operators of a line take the same arguments.
_NAMES_OF_ONE = [
    line.split()
    for line in """
    abs absolute
    acos arccos
    acosh arccosh
    asin arcsin
    asinh arcsinh
    atan arctan
    atan2 arctan2
    atanh arctanh
    cat concat concatenate
    clamp clip
    det linalg_det
    digamma special_digamma special_psi
    div divide
    erf special_erf
    erfc special_erfc
    erfinv special_erfinv
    exp2 special_exp2
    expm1 special_expm1
    ge greater_equal
    gt greater
    i0 special_i0
    igamma special_gammainc
    igammac special_gammaincc
    inverse linalg_inv
    le less_equal
    lgamma special_gammaln
    linalg_householder_product orgqr
    linalg_matrix_exp matrix_exp
    linalg_matrix_power matrix_power
    linalg_slogdet slogdet
    log1p special_log1p
    logit special_logit
    logsumexp special_logsumexp
    lt less
    matmul linalg_matmul
    movedim moveaxis
    mul multiply
    mvlgamma special_multigammaln
    ne not_equal
    neg negative
    outer ger
    polygamma special_polygamma
    round special_round
    sigmoid special_expit
    sinc special_sinc
    sub subtract
    transpose swapaxes swapdims
    trunc fix
    vstack row_stack
    xlogy special_xlogy
    """.split("\n")
    if line.strip()
]
ALIASES = {
    f"aten::{name}": [f"aten::{other}" for other in names if other != name]
    for names in _NAMES_OF_ONE
    for name in names
}

_registered: dict[str, dict[int, Symbolic]] = {}


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Symbolic, opset_version: int
) -> None:
    """Registers a function that writes a torch operator in ONNX, from this opset on.

    Exports by Opgraft use it; torch.onnx.export uses it too after opgraft.torch.compat is imported.
    torch itself is not changed.

    >>> opgraft.torch.register_custom_op_symbolic(
    ...     "::inverse", lambda g, x: g.op("com.microsoft::Inverse", x), 1
    ... )
    """
    if not callable(symbolic_fn):
        raise Error(
            f"register_custom_op_symbolic('{symbolic_name}', …): expected a function of g and the "
            f"operator's arguments, not {symbolic_fn!r}"
        )
    name, opset = _full_name(symbolic_name), _opset(opset_version)
    _registered.setdefault(name, {})[opset] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Removes the function that register_custom_op_symbolic registered for this opset."""
    name = _full_name(symbolic_name)
    if _registered.get(name, {}).pop(_opset(opset_version), None) is None:
        warnings.warn(
            f"no symbolic function is registered for '{name}' and opset {opset_version}",
            stacklevel=2,
        )


def _full_name(name: str) -> str:
    full = f"aten{name}" if name.startswith("::") else name
    if not re.fullmatch(r"[\w-]+::[A-Za-z_-][\w-]*", full):
        raise Error(
            f"register_custom_op_symbolic: '{name}' is not the name of a torch operator. Fix: "
            "write namespace::name, or ::name for one of torch's own"
        )
    if full.startswith("onnx::"):
        raise Error(f"register_custom_op_symbolic: '{name}' is ONNX's own and cannot be replaced")
    return full


def _opset(version: int) -> int:
    if not isinstance(version, int) or version < 1:
        raise Error(f"register_custom_op_symbolic: {version!r} is not an opset; opsets start at 1")
    return version


def registered(opset_version: int) -> dict[str, Symbolic]:
    """Returns the symbolic functions for an export to this opset, by the full name of the operator.

    They include the functions that are registered with torch. If an operator has functions for
    several opsets, the one for the highest opset up to this one is used.
    """
    versions = _private.registered_symbolics()
    for name, given in _registered.items():
        versions[name] = {**versions.get(name, {}), **given}
    found: dict[str, Symbolic] = {}
    for name, functions in versions.items():
        usable = [version for version in functions if version <= opset_version]
        if usable:
            found[name] = functions[max(usable)]
    for name in list(found):
        for other in ALIASES.get(name, []):
            found.setdefault(other, found[name])
    return found


def translations(opset_version: int | None = None) -> dict[Any, Callable[..., Any]]:
    """Returns a custom_translation_table of all registered symbolic functions.

    >>> torch.onnx.export(model, args, custom_translation_table=translations())  # doctest: +SKIP
    """
    if opset_version is None:
        opset_version = _private.default_opsets()[0]
    table: dict[Any, Callable[..., Any]] = {}
    for name, function in registered(opset_version).items():
        overloads = _private.functional_overloads(name)
        if not overloads and name in _registered:
            warnings.warn(
                f"torch has no operator {name}: the symbolic function that is registered for it is "
                "not used",
                stacklevel=2,
            )
        for overload in overloads:
            table[overload] = translation(function, overload)
    return table


@contextmanager
def lent_to_torch(opset_version: int | None) -> Iterator[None]:
    """Registers the functions with the TorchScript exporter meanwhile, by all names of each."""
    default, highest = _private.default_opsets()
    opset = min(opset_version or default, highest)
    before = _private.registered_symbolics()
    lent = [
        (name, function)
        for name, function in registered(opset).items()
        if before.get(name, {}).get(opset) is not function
    ]
    for name, function in lent:
        _private.register_with_torch(name, function, opset)
    try:
        yield
    finally:
        for name, _ in lent:
            _private.register_with_torch(name, before.get(name, {}).get(opset), opset)


def set_versions(model: Any, custom_opsets: Mapping[str, int]) -> None:
    """Sets the versions in which a model (of onnx_ir) imports its domains."""
    for domain, version in custom_opsets.items():
        if domain in ("", "ai.onnx"):
            raise Error(
                f"custom_opsets: {domain!r} is ONNX's own domain; its version is opset_version"
            )
        if domain not in model.opset_imports:
            warnings.warn(
                f"custom_opsets: the model has no operator of the domain {domain!r}", stacklevel=3
            )
        model.opset_imports[domain] = version
