"""torch.func.vmap of Opgraft operators: one call for each member of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from opgraft._base._errors import Error
from opgraft.torch import _private

if TYPE_CHECKING:
    from opgraft.torch._eager._registered import TorchOperator


def make(operator: TorchOperator) -> Callable[..., Any]:
    """Returns the function for torch.library.register_vmap. A declaration does not describe
    batches, so only a loop is right for every operator."""

    def batch(info: Any, in_dims: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        if info.batch_size == 0:
            raise Error(
                f"{operator.schema.full_name}: torch.func.vmap over a dimension of size 0: the "
                "shapes of the results are unknown without a call of the operator. Fix: leave out "
                "empty batches"
            )
        results = []
        for index in range(info.batch_size):
            one = [_member(arg, dim, index) for arg, dim in zip(args, in_dims, strict=True)]
            results.append(_private.flatten(operator.overload(*one, **kwargs)))
        tree = results[0][1]
        stacked = []
        for place, outputs in enumerate(zip(*(leaves for leaves, _ in results), strict=True)):
            shapes = {tuple(output.shape) for output in outputs}
            if len(shapes) > 1:
                raise Error(
                    f"{operator.schema.full_name}: in torch.func.vmap, output {place} has several "
                    f"shapes, {', '.join(map(str, sorted(shapes)))}, which cannot be stacked. "
                    "Fix: call it in a loop instead"
                )
            stacked.append(torch.stack(outputs))
        return _private.unflatten(stacked, tree), _private.unflatten([0] * len(stacked), tree)

    return batch


def _member(arg: Any, dim: Any, index: int) -> Any:
    if isinstance(arg, (list, tuple)):
        dims = dim if isinstance(dim, (list, tuple)) else [dim] * len(arg)
        return [_member(one, own, index) for one, own in zip(arg, dims, strict=True)]
    return arg if dim is None else arg.select(dim, index)
