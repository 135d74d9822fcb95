"""Gradients of Opgraft operators, computed by the backward functions of their authors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from opgraft._base._errors import Error
from opgraft._declare import _declare
from opgraft._declare._backward import Backward
from opgraft._declare._signature import VARIADIC
from opgraft.torch import _private

if TYPE_CHECKING:
    from opgraft.torch._eager._registered import TorchOperator

#: By "domain::Name": the registered backwards. They take precedence over the declared ones.
_backwards: dict[str, Backward] = {}


def register_backward(name: str, backward: Callable[..., Any]) -> None:
    """Gives the operator `domain::Name` a backward, as `@opgraft.op(..., backward=...)` does. It is
    a function of torch tensors: it takes the gradient of each output, and the inputs and outputs
    that its parameters name, and returns the gradient of each input.

    >>> opgraft.torch.register_backward("mylibrary::AddAndRound", lambda gradient: 2 * gradient)
    """
    from opgraft.torch._eager import _registered

    schema = _registered.find(name).schema
    _backwards[schema.full_name] = Backward.read(
        schema.full_name,
        backward,
        [one.declared for one in schema.inputs],
        [one.declared for one in schema.outputs],
        [one.declared for one in schema.attributes],
    )


def find(full_name: str) -> Backward | None:
    if full_name in _backwards:
        return _backwards[full_name]
    declared = {one.full_name: one for one in _declare.operators()}.get(full_name)
    return None if declared is None else declared.backward


def make(operator: TorchOperator) -> Callable[..., Any]:
    """Returns the function that torch calls if a gradient is wanted, or for special tensors."""
    function = _make_function(operator)

    def begin(*args: Any, **kwargs: Any) -> Any:
        tensors = _flatten(args)
        if torch.is_grad_enabled() and any(_requires_grad(one) for one in tensors):
            call = _Call(operator, args, kwargs)
            return call.arrange(_private.apply_function(function, call, *tensors))
        for one in tensors:
            if one is not None and _has_tangent(one):
                raise Error(
                    f"{operator.schema.full_name}: a derivative is wanted in forward mode, which "
                    "is not supported. Fix: use reverse mode, with a backward"
                )
        with _private.below_autograd():
            return operator.overload(*args, **kwargs)

    return begin


def _has_tangent(tensor: torch.Tensor) -> bool:
    return forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]


def _requires_grad(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and tensor.requires_grad


def _flatten(args: Sequence[Any]) -> list[torch.Tensor | None]:
    tensors: list[torch.Tensor | None] = []
    for one in args:
        tensors += one if isinstance(one, (list, tuple)) else [one]
    return tensors


class _Call:
    """One call of an operator whose gradient is wanted."""

    def __init__(
        self, operator: TorchOperator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        self.operator = operator
        self.kwargs = kwargs
        #: For each input, the number of tensors in its list; None if it is not a list.
        self.counts = [len(one) if isinstance(one, (list, tuple)) else None for one in args]
        self.backward = find(operator.schema.full_name)

    def group(self, values: Sequence[Any]) -> list[Any]:
        """Takes a value for each tensor, and returns a value or a list for each input."""
        grouped: list[Any] = []
        at = 0
        for count in self.counts:
            grouped.append(values[at] if count is None else list(values[at : at + count]))
            at += 1 if count is None else count
        return grouped

    def run(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """Returns all outputs in one tuple."""
        with _private.below_autograd():
            result = self.operator.overload(*self.group(tensors), **self.kwargs)
        if result is None:
            return ()
        return tuple(_flatten(result if isinstance(result, (list, tuple)) else [result]))

    def arrange(self, given: Any) -> Any:
        values = given if isinstance(given, tuple) else (given,)
        return self.operator.schema.arrange(values)

    def save(self, context: Any, tensors: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Saves only the inputs and outputs that the backward names."""
        if self.backward is None:
            return
        inputs = self.group(tensors) + [None] * len(self.operator.schema.inputs)
        saved: list[Any] = []
        for what, place in self.backward.names:
            value = inputs[place] if what == "input" else self._output(outputs, place)
            saved += value if isinstance(value, list) else [value]
            context.spans.append(len(value) if isinstance(value, list) else None)
        context.save_for_backward(*saved)

    def _output(self, outputs: Sequence[Any], place: int) -> Any:
        is_open = self.operator.schema.outputs[place].occurrence == VARIADIC
        return list(outputs[place:]) if is_open else outputs[place]

    def gradients(self, context: Any, given: Sequence[Any]) -> list[Any]:
        """Returns a gradient for each tensor that was given to the operator."""
        name = self.operator.schema.full_name
        if self.backward is None:
            raise Error(
                f"{name}: a gradient is wanted, but it has no backward. Fix: declare it "
                f'with @opgraft.op("{name}", ..., backward=lambda gradient, '
                f"{self.operator.schema.inputs[0].declared}: ...), or give it one by "
                f'opgraft.torch.register_backward("{name}", ...). If no gradient is needed: '
                "x.detach(), or torch.no_grad()"
            )
        saved = list(context.saved_tensors)
        values: list[Any] = []
        for span in context.spans:
            values.append(saved.pop(0) if span is None else [saved.pop(0) for _ in range(span)])
        attributes = self.attributes(self.backward)
        grads: list[Any] = list(given)
        if self.operator.schema.count is not None:
            first = len(self.operator.schema.outputs) - 1
            grads = [*grads[:first], grads[first:]]
        result = self.backward.function(*grads, *values, **attributes)
        return self._checked(result)

    def attributes(self, backward: Backward) -> dict[str, Any]:
        """Returns the attributes that the backward takes, with their defaults."""
        schema = self.operator.schema
        given = schema.attributes_of(self.kwargs)
        if not schema.core.is_native:
            whole = _declare.find(schema.full_name).arguments(given)
        else:
            whole = {one.name: one.default for one in schema.core.attributes} | given
        return {one: _text(whole.get(one)) for one in backward.attributes}

    def _checked(self, result: Any) -> list[Any]:
        schema = self.operator.schema
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        is_one_list = len(self.counts) == 1 and self.counts[0] is not None
        if is_one_list and not (len(results) == 1 and isinstance(results[0], (list, tuple))):
            results = [results]
        if len(results) not in (len(self.counts), len(schema.inputs)):
            raise Error(
                f"{schema.full_name}: its backward must return {len(schema.inputs)} gradients, one "
                f"for each input ({', '.join(one.declared for one in schema.inputs)}) or None, but "
                f"it returned {len(results)}"
            )
        flat: list[Any] = []
        for parameter, count, one in zip(schema.inputs, self.counts, results, strict=False):
            if count is None:
                flat.append(one)
            elif one is None:
                flat += [None] * count
            elif not isinstance(one, (tuple, list)) or len(one) != count:
                raise Error(
                    f"{schema.full_name}: its backward must return a list of {count} gradients for "
                    f"'{parameter.declared}', one for each of its tensors, not "
                    f"{len(one) if isinstance(one, (tuple, list)) else type(one).__name__}"
                )
            else:
                flat += one
        return flat


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _make_function(operator: TorchOperator) -> type[torch.autograd.Function]:
    """Makes one class for each operator, since torch prints the name of the class as `grad_fn`."""

    def forward(context: Any, call: _Call, *tensors: Any) -> Any:
        outputs = call.run(tensors)
        context.call = call
        context.spans = []
        call.save(context, tensors, outputs)
        return outputs

    def backward(context: Any, *gradients: Any) -> Any:
        return (None, *context.call.gradients(context, gradients))

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(operator.schema.core.name, (torch.autograd.Function,), members)
