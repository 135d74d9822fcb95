"""Keeps torch out of processes that import skops and do not use torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: A package of scikit-learn's that imports torch. It has none of the estimators that skops looks
#: for in all of scikit-learn's packages when it is imported.
_OF_TORCH = "sklearn.externals.array_api_compat.torch"


@contextmanager
def without_torch() -> Iterator[None]:
    """Makes skops pass over that package inside the block, as over any that cannot be imported.

    Otherwise, every process that loads a stored estimator would import torch where it is installed,
    which takes longer than scikit-learn itself. A package that is imported already stays."""
    modules: dict[str, Any] = sys.modules
    if _OF_TORCH in modules:
        yield
        return
    modules[_OF_TORCH] = None
    try:
        yield
    finally:
        if modules.get(_OF_TORCH, 0) is None:
            del modules[_OF_TORCH]
