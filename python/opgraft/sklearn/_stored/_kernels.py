"""Checks the kernel function of a support vector machine.

libsvm expects one column for each row that the machine was fitted with, and does not check the
width of what a kernel returns. So a kernel must be one of scikit-learn's, or allowed by the host.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import pairwise

from opgraft._base._errors import ModelError
from opgraft.sklearn._stored import _trusted

_HOME = "sklearn.metrics.pairwise"
KERNELS = {name: getattr(pairwise, name) for name in _trusted.TRUSTED[_HOME].split()}
#: The arguments that a partial may set: numbers that do not change the shape of the result.
_OPTIONS = {"gamma", "coef0", "degree"}


def check(owner: Any, own: Collection[str]) -> None:
    """Raises a ModelError for a kernel that may return a matrix of another width. `own` are the
    names of functions and types that the host has allowed."""
    kernel = owner.kernel
    if not callable(kernel):
        return
    function, options = kernel, {}
    if type(kernel) is partial:
        function, options = kernel.func, kernel.keywords
    named = function if hasattr(function, "__qualname__") else type(function)
    name = f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"
    if name in own:
        return
    is_plain = set(options) <= _OPTIONS and all(
        one is None or isinstance(one, (int, float, np.number)) for one in options.values()
    )
    is_kernel = any(function is one for one in KERNELS.values())
    if not is_kernel or not is_plain or (function is not kernel and kernel.args):
        shown = (
            f"{name}, with {', '.join(options) or 'arguments'}" if function is not kernel else name
        )
        raise ModelError(
            f"{type(owner).__name__}.kernel is {shown}, which may return a matrix of another width "
            f"than libsvm reads; expected the name of a kernel, a function of {_HOME} ("
            f"{', '.join(sorted(KERNELS))}; in a partial with "
            f"numbers for {', '.join(sorted(_OPTIONS))}), or your own function that the host "
            "allows"
        )
