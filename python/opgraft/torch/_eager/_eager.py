"""Registers with torch the functions that run an Opgraft operator on torch tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from opgraft import _pyop
from opgraft.torch import _private
from opgraft.torch._eager import _batch, _fake_function, _gradient, _on_gpu

if TYPE_CHECKING:
    from opgraft.torch._eager._registered import TorchOperator


@functools.cache
def _set_torch() -> None:
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        raise _private.moved("torch.Tensor.__dlpack_c_exchange_api__")
    _pyop.set_torch(
        exchange=capsule,
        tensor=torch.Tensor,
        parameter=torch.nn.Parameter,
        count_modes=_private.count_modes(),
        is_grad_enabled=torch.is_grad_enabled,
        forward_mode=_private.forward_mode(),
        parallel_for=_private.parallel_for(),
    )


def install(operator: TorchOperator) -> None:
    """Registers the functions that torch calls for an operator that is already defined."""
    _set_torch()

    def read(keywords: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        schema = operator.schema
        return schema.attributes_of(keywords), schema.count_outputs(keywords)

    run = _pyop.TorchKernel(operator.schema.full_name, operator.schema.core.is_native, read)
    operator.kernel = run
    begin: Callable[..., Any] = _gradient.make(operator)
    on_tensors: Callable[..., Any] = run
    if operator.schema.core.on_gpu:
        on_tensors = _on_gpu.make(operator)
    else:
        begin = run.otherwise(begin)
    library, local = operator.library, operator.qualified.partition("::")[2]
    # For all devices: the kernel refuses a wrong device with an error that says what to do.
    library.impl(local, on_tensors, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    library.impl(local, begin, "Autograd")  # type: ignore[no-untyped-call]
    torch.library.register_vmap(operator.qualified, _batch.make(operator), lib=library)
    torch.library.register_fake(operator.qualified, _fake_function.make(operator), lib=library)


def replace(operator: TorchOperator) -> None:
    """Makes torch use the new declaration of an operator, which has the same schema."""
    operator.kernel.reload()
