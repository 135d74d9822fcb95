"""Temporarily disturbs the weights of a model by their rounding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

from opgraft.torch._verify import _rounding

#: Larger weights are not disturbed, because that takes a second copy of them.
_MOST_BYTES = 2**29
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


@contextmanager
def disturbed(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Disturbs each tensor by a rounding inside the context; none if they are too large."""
    found = {id(one): one for one in tensors if type(one) in _PLAIN and one.is_floating_point()}
    if sum(one.nbytes for one in found.values()) > _MOST_BYTES:
        found = {}
    before = [(one, one.data) for one in found.values()]
    try:
        for one, data in before:
            one.data = _rounding.disturb(data)
        yield
    finally:
        for one, data in before:
            one.data = data
