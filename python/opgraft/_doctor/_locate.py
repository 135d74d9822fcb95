"""Finds the file of a Python module without importing anything, not even its packages."""

from __future__ import annotations

import importlib.util
import pkgutil
from importlib.machinery import ModuleSpec


def locate(module: str) -> str | None:
    """Returns the file of a module, or a folder of a package without a file; None if not found."""
    name, *parts = module.split(".")
    try:
        spec = importlib.util.find_spec(name) if name else None
    except (ImportError, ValueError):
        return None
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = f"{name}.{part}"
        spec = _find_in(list(spec.submodule_search_locations), name)
    if spec is None:
        return None
    return spec.origin or next(iter(spec.submodule_search_locations or ()), "")


def _find_in(folders: list[str], name: str) -> ModuleSpec | None:
    """Finds a module of a package. Unlike importlib's own search, does not import the package."""
    portions: list[str] = []
    for folder in folders:
        finder = pkgutil.get_importer(folder)
        spec = finder.find_spec(name) if finder is not None else None
        if spec is not None and spec.loader is not None:
            return spec
        if spec is not None:
            portions += list(spec.submodule_search_locations or ())
    if not portions:
        return None
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = portions
    return spec
