"""Finds the bench rows of operators: `bench_<operator>.py` in their folders."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parent


def modules() -> dict[str, ModuleType]:
    """Returns the bench modules of all packs, by the names of the operators' folders."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))  # where they find `timing` and `gpu_timing`
    found = {}
    for path in sorted(FOLDER.glob("*/*/bench_*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found[path.parent.name] = module
    return found
