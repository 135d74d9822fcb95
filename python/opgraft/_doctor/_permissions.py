"""The names that a host must allow for a model: Python modules, and operators of torch."""

from __future__ import annotations

from collections.abc import Sequence

from opgraft._doctor._survey import Operator, Survey


def module_of(operator: Operator, survey: Survey) -> str | None:
    """Returns the Python module that runs an operator, according to the model."""
    if operator.is_pyop:
        return None if operator.is_referring else operator.module
    return survey.modules.get(operator.full_name)


def permissions_of(operator: Operator, survey: Survey) -> list[str]:
    """Returns the Python modules and operators of torch that the host must allow by name."""
    from opgraft import _pyop

    name = operator.torch_operator
    if operator.is_in_libtorch:
        # In the encoding of torch's legacy exporter, the overload is not known yet.
        is_ours = any(one.name == "encoding" for one in operator.attributes)
        return [name] if is_ours and name and _pyop.aten_is_listed(name) is False else []
    module = module_of(operator, survey)
    if module is None or not name:
        return [] if module is None else [module]
    domain, _, rest = name.partition("::")
    return [module, operator.defined_in or f"{domain}::{rest.partition('.')[0]}"]


def allowance_of(module: str) -> str:
    """Returns the name that allows a module: its short name if it has one, or its own name."""
    from opgraft import _pyop

    return _pyop.allowance_of(module)


def held_for(module: str) -> str:
    """Returns what models hold for a module of ours, for messages; "" for any other module."""
    from opgraft import _pyop

    return _pyop.held_for(module)


def is_of_standard_library(name: str) -> bool:
    """Whether a module, or a name in it, belongs to Python's standard library."""
    from opgraft import _pyop

    return _pyop.is_of_standard_library(name)


def allowing(names: Sequence[str]) -> str:
    """Returns the options that allow these names, and the argument to use in a program."""
    names = [allowance_of(name) for name in names]
    options = " ".join(f"--allow {name}" for name in names)
    listed = ", ".join(f'"{name}"' for name in names)
    return f"{options} (in a program allow=[{listed}])"
