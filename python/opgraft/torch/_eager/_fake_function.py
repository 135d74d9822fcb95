"""The fake (meta) function of an operator: applies its shape rule, without data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from opgraft import _pyop
from opgraft._base._errors import Error
from opgraft._declare import _declare
from opgraft._declare._signature import VARIADIC
from opgraft.torch._eager import _sizes

if TYPE_CHECKING:
    from opgraft.torch._eager._registered import TorchOperator

#: The ONNX number of each torch type.
ELEMENT_TYPES = {
    getattr(torch, one.name): one.number for one in _pyop.ELEMENT_TYPES if one.has_dlpack
}
DTYPES = {number: dtype for dtype, number in ELEMENT_TYPES.items()}


def make(operator: TorchOperator) -> Callable[..., Any]:
    """Returns the function that torch calls with fake tensors, which have no data."""

    def fake(*args: Any, **kwargs: Any) -> Any:
        schema = operator.schema
        tensors: list[torch.Tensor | None] = []
        for parameter, value in zip(schema.inputs, args, strict=False):
            tensors += value if parameter.occurrence == VARIADIC else [value]
        while tensors and tensors[-1] is None:
            tensors.pop()
        device = next((one.device for one in tensors if one is not None), torch.device("cpu"))
        types = [0 if one is None else element_type(operator, one) for one in tensors]
        shapes = [None if one is None else tuple(one.shape) for one in tensors]
        given = schema.attributes_of(kwargs)
        count = schema.count_outputs(kwargs)
        results = operator.kernel.output_types(types, count)
        infer = _infer_native if schema.core.is_native else _infer_declared
        sizes = infer(operator, types, shapes, given, count)
        return schema.arrange(
            [
                torch.empty(_settled(operator, place, shape), dtype=DTYPES[type_], device=device)
                for place, (type_, shape) in enumerate(zip(results, sizes, strict=True))
            ]
        )

    return fake


def element_type(operator: TorchOperator, tensor: torch.Tensor) -> int:
    number = ELEMENT_TYPES.get(tensor.dtype)
    if number is None:
        raise Error(
            f"{operator.schema.full_name}: a tensor is {tensor.dtype}, a type that ONNX lacks"
        )
    return number


def _infer_declared(
    operator: TorchOperator,
    types: Sequence[int],
    shapes: Sequence[Any],
    given: Mapping[str, Any],
    count: int,
) -> Sequence[_sizes.Shape | None]:
    """Calls the rule with torch's own symbols; comparisons in the rule become guards of torch."""
    declared = _declare.find(operator.schema.full_name)
    if declared.rule is None:
        return [None] * count
    return declared.rule.apply_to_symbols(
        shapes, declared.arguments(given), count, symbols=torch.SymInt
    )


def _infer_native(
    operator: TorchOperator,
    types: Sequence[int],
    shapes: Sequence[Any],
    given: Mapping[str, Any],
    count: int,
) -> Sequence[_sizes.Shape | None]:
    schema = operator.schema

    def infer(named: Sequence[Any]) -> Sequence[Any]:
        inputs = [
            None if shape is None else (type_, shape, None)
            for type_, shape in zip(types, named, strict=True)
        ]
        inferred = _pyop.infer_native(
            schema.full_name, schema.core.since_version, inputs, dict(given), count
        )
        return [shape for _, shape in inferred]

    return _sizes.infer_by_names(shapes, infer)


def _settled(operator: TorchOperator, place: int, shape: _sizes.Shape | None) -> list[Any]:
    """Replaces each size that the rule leaves open by a symbol, known after the operator ran."""
    name, is_native = operator.schema.full_name, operator.schema.core.is_native
    if shape is None:
        raise Error(
            f"{name}: the shape of output {place} is not known before it runs, but torch.compile "
            "and torch.export need at least its rank. Fix: give the operator a shape rule, "
            + (".Shape(...)" if is_native else "@opgraft.op(..., shape=lambda x: ...)")
            + ", in which a size that depends on the values is left open ("
            + ("opgraft::Dim()" if is_native else "None")
            + ")"
        )
    return [_new_size() if size is None else size for size in shape]


def _new_size() -> torch.SymInt:
    return torch.library.get_ctx().new_dynamic_size(min=0)
