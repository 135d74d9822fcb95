"""Calls operators that are declared with `device="cuda"` on torch tensors."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
import torch.utils.dlpack

from opgraft._base._errors import Error, PyOpError
from opgraft._declare import _declare
from opgraft._declare._signature import VARIADIC
from opgraft.torch._eager import _fake_function

if TYPE_CHECKING:
    from opgraft.torch._eager._registered import TorchOperator


def make(operator: TorchOperator) -> Callable[..., Any]:
    """Returns the function that torch calls if no gradient is wanted."""
    # The key has the id of the declaration, since an operator may be declared again. The value
    # keeps the declaration alive, so that no other object gets this id.
    made: dict[tuple[int, str], tuple[_declare.Operator, Callable[..., Any]]] = {}

    def run(*args: Any, **kwargs: Any) -> Any:
        schema = operator.schema
        declared = _declare.find(schema.full_name)
        inputs = _inputs(operator, args)
        device = _device(operator, inputs)
        given = schema.attributes_of(kwargs)
        key = id(declared), repr(sorted(given.items()))
        if key not in made:
            made[key] = declared, declared.make(given)
        library = _Arrays(declared.arrays)
        with torch.cuda.device(device), library.on_stream_of(device):
            outputs = _call(
                operator, declared, library, made[key][1], inputs, device, given, kwargs
            )
        return schema.arrange(outputs)

    return run


def _call(
    operator: TorchOperator,
    declared: _declare.Operator,
    library: _Arrays,
    function: Callable[..., Any],
    inputs: Sequence[torch.Tensor | None],
    device: torch.device,
    given: Mapping[str, Any],
    kwargs: Mapping[str, Any],
) -> list[torch.Tensor]:
    name = declared.full_name
    count = operator.schema.count_outputs(kwargs)
    types = [0 if one is None else _fake_function.element_type(operator, one) for one in inputs]
    dtypes = [_fake_function.DTYPES[one] for one in operator.kernel.output_types(types, count)]
    shapes: Sequence[Any] = [None] * count
    if declared.rule is not None:
        known = [None if one is None else tuple(one.shape) for one in inputs]
        shapes = declared.rule.apply(known, declared.arguments(given), count)
    arrays = [None if one is None else library.give(one) for one in inputs]
    if declared.copy_inputs:
        arrays = [None if one is None else library.copy(one) for one in arrays]
    extra: dict[str, Any] = {}
    if declared.takes_out:
        out = [
            torch.empty(shape, dtype=dtype, device=device)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]
        lent = tuple(library.give(one) for one in out)
        extra["out"] = lent[0] if len(lent) == 1 else lent
    try:
        result = function(*arrays, **extra)
    except Exception as error:
        raise PyOpError(f"{name}: the operator raised {type(error).__name__}: {error}") from error
    if extra and result is None:
        result = extra["out"]
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(results) != count:
        raise PyOpError(f"{name}: expected {count} outputs, but it returned {len(results)}")
    taken = []
    for index, one in enumerate(results):
        if extra and (one is None or one is lent[index]):
            taken.append(out[index])
            continue
        expected = shapes[index], dtypes[index], device
        taken.append(_checked(name, index, library.take(one), expected, inputs))
    return taken


def _checked(
    name: str,
    index: int,
    value: Any,
    expected: tuple[Any, torch.dtype, torch.device],
    inputs: Sequence[torch.Tensor | None],
) -> torch.Tensor:
    shape, dtype, device = expected
    if not isinstance(value, torch.Tensor) or value.device != device or value.dtype != dtype:
        came = (
            f"a {value.dtype} tensor on {value.device}"
            if isinstance(value, torch.Tensor)
            else f"a {type(value).__name__}"
        )
        raise PyOpError(
            f"{name}: output {index}: expected a {dtype} tensor on {device}, but the operator "
            f"returned {came}"
        )
    if shape is not None and not _fits(tuple(value.shape), shape):
        raise PyOpError(
            f"{name}: output {index}: expected a tensor of shape {shape}, as its shape rule says, "
            f"but the operator returned one of shape {tuple(value.shape)}"
        )
    # A torch operator must not return views of its inputs.
    memory = value.untyped_storage().data_ptr()
    given = {one.untyped_storage().data_ptr() for one in inputs if one is not None}
    return value.detach().clone() if memory in given else value.detach()


def _fits(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(shape) == len(expected) and all(
        wanted in (None, size) for size, wanted in zip(shape, expected, strict=True)
    )


def _inputs(operator: TorchOperator, args: Sequence[Any]) -> list[torch.Tensor | None]:
    tensors: list[torch.Tensor | None] = []
    for parameter, value in zip(operator.schema.inputs, args, strict=False):
        tensors += value if parameter.occurrence == VARIADIC else [value]
    return tensors


def _device(operator: TorchOperator, inputs: Sequence[torch.Tensor | None]) -> torch.device:
    """Returns the device that all inputs are on."""
    name = operator.schema.full_name
    found: torch.device | None = None
    for index, one in enumerate(inputs):
        if one is None:
            continue
        if one.device.type != "cuda":
            raise Error(
                f'{name} runs on GPUs alone (device="cuda"), but input {index} is on the device '
                f"{one.device}. Fix: x.cuda()"
            )
        if found is not None and one.device != found:
            raise Error(f"{name}: its inputs are on {found} and on {one.device}, expected one GPU")
        found = one.device
    return found or torch.device("cuda", torch.cuda.current_device())


class _Arrays:
    """Converts tensors to the arrays that the operator takes, and back."""

    def __init__(self, name: str) -> None:
        self._cupy: Any = importlib.import_module("cupy") if name == "cupy" else None

    def on_stream_of(self, device: torch.device) -> AbstractContextManager[Any]:
        """Makes the array library use torch's current stream."""
        if self._cupy is None:
            return nullcontext()
        from opgraft._cuda._gpu_arrays import cupy_stream

        address = int(torch.cuda.current_stream(device).cuda_stream)
        stream: AbstractContextManager[Any] = cupy_stream(self._cupy, address, device.index)
        return stream

    def give(self, tensor: torch.Tensor) -> Any:
        tensor = tensor.detach().resolve_neg()
        return tensor if self._cupy is None else self._cupy.from_dlpack(tensor)

    def copy(self, array: Any) -> Any:
        return array.clone() if self._cupy is None else array.copy()

    def take(self, array: Any) -> Any:
        is_cupys = self._cupy is not None and isinstance(array, self._cupy.ndarray)
        return torch.utils.dlpack.from_dlpack(array) if is_cupys else array
