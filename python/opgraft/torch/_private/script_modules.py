"""The attributes of TorchScript modules (torch.jit.script, torch.jit.trace, torch.jit.load)."""

from __future__ import annotations

from typing import Any

import torch

from opgraft.torch._private.lookup import moved


def has_scripts(model: torch.nn.Module) -> bool:
    """Whether a model is, or contains, a TorchScript module."""
    return any(isinstance(one, torch.jit.ScriptModule) for one in model.modules())


def script_attributes(module: torch.jit.ScriptModule) -> dict[str, Any]:
    """Returns the module's own attributes, without parameters and submodules. Lists and
    dictionaries are copies."""
    inner = _inner(module)
    try:
        names = inner._concrete_type.get_attributes()
        return {name: inner._c.getattr(name) for name in names if inner._c.hasattr(name)}
    except AttributeError as error:
        raise moved("torch.jit.ScriptModule._concrete_type") from error


def set_script_attribute(module: torch.jit.ScriptModule, name: str, value: Any) -> None:
    try:
        _inner(module)._c.setattr(name, value)
    except AttributeError as error:
        raise moved("torch.jit.ScriptModule._c") from error


def _inner(module: torch.jit.ScriptModule) -> Any:
    """Returns the module itself, which torch.jit.trace puts into a wrapper."""
    return vars(module).get("_actual_script_module", module)
