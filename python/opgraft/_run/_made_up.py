"""Makes up inputs, for runs that only need some."""

from __future__ import annotations

from typing import Any

from opgraft._base._errors import Error


def make_up(argument: Any) -> Any:
    """Makes up an input: normal numbers, zeros for integers, "" for texts; open sizes are 1."""
    import numpy as np

    from opgraft._base._needed import find_dtype
    from opgraft._run._run import type_name
    from opgraft._run._tensors import TYPES

    name = type_name(argument)
    shape = [size if isinstance(size, int) and size >= 0 else 1 for size in argument.shape]
    if name == "string":
        return np.full(shape, "")
    if name == "bool":
        return np.ones(shape, bool)
    plain = {"float": "float32", "double": "float64"}.get(name, name)
    try:
        dtype = find_dtype(TYPES[name][1]) if name in TYPES else np.dtype(plain)
    except TypeError as error:
        raise Error(
            f"the input '{argument.name}' is {argument.type}, which cannot be made up"
        ) from error
    if dtype.kind in "iu":
        return np.zeros(shape, dtype)
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)
