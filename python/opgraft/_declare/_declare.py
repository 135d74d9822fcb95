"""`@opgraft.op`: declares an operator in Python, once, for every host."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from opgraft import _pyop
from opgraft._base._errors import Error
from opgraft._base._when_imported import tell_torch, when_imported
from opgraft._declare import _signature
from opgraft._declare._backward import Backward
from opgraft._declare._shapes import Known, Rule

_Declared = TypeVar("_Declared", bound=Callable[..., Any])

_NAME = re.compile(r"(?P<domain>[^\s:]*)::(?P<name>\w+)")
_TORCH_NAME = re.compile(r"\w+::\w+(\.\w+)?")
_OUR_DOMAIN = "ai.opgraft"


@dataclass(frozen=True)
class Operator:
    """A declared operator, from which every host derives its own form."""

    schema: _pyop.Schema
    attributes: list[_signature.Attribute]
    takes_out: bool
    rule: Rule | None
    copy_inputs: bool
    implementation: Callable[..., Any]  # the function, or the class
    arrays: str  # for an operator on a GPU, the library of its arrays: "torch" or "cupy"
    backward: Backward | None
    pure: bool
    one_worker: bool

    @property
    def full_name(self) -> str:
        return self.schema.full_name

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns all attributes as Python values: those in the model, defaults for the others."""
        return {
            one.name: one.convert(given[one.name]) if one.name in given else one.default
            for one in self.attributes
            if one.name in given or not one.is_required
        }

    def make(self, given: Mapping[str, Any]) -> Callable[..., Any]:
        """Returns the function to call in each run of a node with these attributes."""
        arguments = self.arguments(given)
        if isinstance(self.implementation, type):
            compute: Callable[..., Any] = self.implementation(**arguments).compute
            return compute
        if not arguments:
            return self.implementation
        return functools.partial(self.implementation, **arguments)

    def run(self, inputs: Sequence[Any], given: Mapping[str, Any], outputs: int) -> tuple[Any, ...]:
        """Runs the operator on arrays, without a runtime. An absent input is None."""
        if self.schema.on_gpu:
            raise Error(
                f'{self.full_name} runs on a GPU (device="cuda"), not on NumPy arrays. Fix: '
                "run it in a session, opgraft.InferenceSession(model, "
                'providers=["OpgraftCUDA", "CPUExecutionProvider"])'
            )
        absent = [None] * (_required(self.schema.inputs) - len(inputs))
        inputs = [*inputs, *absent]
        extra: dict[str, Any] = {}
        if self.rule is not None and self.takes_out:
            shapes = [None if one is None else one.shape for one in inputs]
            total = max(outputs, _required(self.schema.outputs))
            sizes = self.rule.apply(shapes, self.arguments(given), total)
            out = tuple(
                np.empty(self._whole(size, index), self._output_dtype(index, inputs))
                for index, size in enumerate(sizes)
            )
            extra["out"] = out[0] if len(out) == 1 else out
        result = self.make(given)(*inputs, **extra)
        if result is None and extra:
            result = extra["out"]
        if result is None:
            return ()
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)

    def _whole(self, shape: tuple[int | None, ...] | None, index: int) -> tuple[int, ...]:
        if shape is None or None in shape:
            raise Error(
                f"{self.full_name}: it takes 'out', but its shape rule does not give the shape of "
                f"output {index}"
            )
        return tuple(size for size in shape if size is not None)

    def _output_dtype(self, index: int, inputs: Sequence[Any]) -> Any:
        origin = self.schema.output_type_origin(index, [one is not None for one in inputs])
        if origin.fixed:
            return _signature.dtype_of(origin.fixed)
        if origin.input is None:
            raise Error(f"{self.full_name}: output {index} has the type of an absent input")
        return inputs[origin.input].dtype


def _required(parameters: Sequence[_pyop.Parameter]) -> int:
    """Returns the smallest number of values, including absent ones."""
    return len(parameters) - sum(one.occurrence == _signature.VARIADIC for one in parameters)


_operators: dict[str, Operator] = {}


def op(
    name: str,
    *,
    shape: Callable[..., Any] | None = None,
    copy_inputs: bool = False,
    device: str = "cpu",
    arrays: str | None = None,
    torch: str | Sequence[str] = (),
    backward: Callable[..., Any] | None = None,
    isolation: str | None = None,
    pure: bool = False,
    one_worker: bool = False,
) -> Callable[[_Declared], _Declared]:
    """Declares a function, or a class with a method `compute`, as the operator `domain::Name`.

    The signature is the schema: positional parameters are inputs, keyword-only ones (for a class
    the parameters of `__init__`) are attributes, and the return annotation gives the outputs.
    `numpy.ndarray` accepts any type; an output annotated so has the type of the first input.
    `numpy.typing.NDArray[numpy.int64]` accepts one type. A TypeVar ties types together.

    `shape` is a function that takes the shapes of the inputs (and attributes, by keyword) and
    returns the shape of the output, or a tuple of shapes. With it, the operator may have a keyword
    parameter `out` and write its result directly into the runtime's memory. `copy_inputs` makes
    every input a copy, which the operator may keep and write to.

    With `device="cuda"` the operator runs on a GPU only, in sessions with the provider OpgraftCUDA.
    It takes and returns arrays of torch there, or of CuPy with `arrays="cupy"`. Annotations may
    name them too: `torch.Tensor` for any type, `Annotated[torch.Tensor, torch.float16]` for one
    type.

    If `opgraft.torch` is imported, it is an operator of torch as well. `torch` is the name, or a
    list of names, of torch's own operators that it can replace in exported models, such as
    "aten::linalg_inv".
    `backward` is a function of torch tensors. It takes the gradients of the outputs, and the inputs
    and outputs that it names, and returns the gradients of the inputs.

    With `isolation="process"` sessions run it in a worker process, even if they run others in this
    one. `pure` says that a call may be repeated after its worker has ended (`retries` of a
    session), and `one_worker` that all calls of a node must be of one object, since it has a state.

    >>> @opgraft.op("mylibrary::AddAndRound", shape=lambda x: x)
    ... def add_and_round(x: np.ndarray) -> np.ndarray:
    ...     return np.round(x + x)
    """
    _split(name)
    if shape is not None and not callable(shape):
        raise Error(f"{name}: expected shape to be a function of the inputs' shapes, not {shape!r}")
    on_gpu = _is_on_gpu(name, device, arrays)
    if isolation not in (None, "process"):
        raise Error(f'{name}: expected isolation to be "process" or None, not {isolation!r}')
    if isolation is not None and on_gpu:
        raise Error(
            f'{name}: it runs on a GPU (device="cuda"), whose memory is not shared with worker '
            "processes, so it cannot be isolated"
        )
    torch_names: list[Any] = list(torch) if isinstance(torch, (list, tuple)) else [torch]
    for one in torch_names:
        if not isinstance(one, str) or not _TORCH_NAME.fullmatch(one):
            raise Error(
                f"{name}: expected torch to be the name of an operator, such as 'aten::linalg_inv' "
                f"or 'aten::add.Tensor', not {one!r}"
            )
    # Annotations may use names that are local to the declaring function.
    scope = sys._getframe(1).f_locals

    def declare(implementation: _Declared) -> _Declared:
        signature = _read(implementation, name, scope, on_gpu)
        if arrays is not None and signature.arrays not in ("", arrays):
            raise Error(f"{name}: arrays={arrays!r}, but its annotations name {signature.arrays}")
        rule = None
        if shape is not None:
            rule = Rule(
                shape,
                name,
                _rule_attributes(shape, name, signature),
                _required(signature.inputs),
                count_outputs(signature.outputs),
            )
        elif signature.takes_out:
            raise Error(
                f"{name} cannot be declared: it takes 'out', which needs a shape rule (shape=...)"
            )
        declare_as(
            name,
            implementation,
            signature,
            rule=rule,
            copy_inputs=copy_inputs,
            on_gpu=on_gpu,
            arrays=(arrays or signature.arrays or "torch") if on_gpu else "",
            torch_names=torch_names,
            backward=None if backward is None else read_backward(name, backward, signature),
            isolation=isolation,
            pure=pure,
            one_worker=one_worker,
        )
        return implementation

    return declare


def _split(name: str) -> tuple[str, str]:
    """Returns the domain and the name in "domain::Name"; raises if it cannot be declared."""
    if not isinstance(name, str) or not (parts := _NAME.fullmatch(name)):
        raise Error(f"expected the operator's name as 'domain::Name', not {name!r}")
    domain = "" if parts["domain"] == "ai.onnx" else parts["domain"]
    if domain == _OUR_DOMAIN:
        raise Error(f"{name} cannot be declared: the domain {_OUR_DOMAIN} is Opgraft's own")
    if parts["name"] == "PyOp":
        raise Error(f"{name} cannot be declared: PyOp nodes name the class that they run")
    return domain, parts["name"]


def declare_as(
    name: str,
    implementation: Callable[..., Any],
    signature: _signature.Signature,
    *,
    rule: Rule | None = None,
    copy_inputs: bool = False,
    on_gpu: bool = False,
    arrays: str = "",
    torch_names: Sequence[str] = (),
    backward: Backward | None = None,
    isolation: str | None = None,
    pure: bool = False,
    one_worker: bool = False,
) -> None:
    """Declares an operator whose signature has been read, however it was written."""
    domain, own_name = _split(name)
    schema = _pyop.Schema(
        domain=domain,
        name=own_name,
        module=implementation.__module__,
        documentation=inspect.cleandoc(implementation.__doc__ or ""),
        torch_name=", ".join(torch_names),
        inputs=signature.inputs,
        outputs=signature.outputs,
        types=signature.types,
        attributes=[one.parameter for one in signature.attributes],
        has_shape_rule=rule is not None,
        on_gpu=on_gpu,
        is_isolated=isolation is not None,
    )
    _register(
        Operator(
            schema=schema,
            attributes=signature.attributes,
            takes_out=signature.takes_out,
            rule=rule,
            copy_inputs=copy_inputs,
            implementation=implementation,
            arrays=arrays,
            backward=backward,
            pure=pure,
            one_worker=one_worker,
        )
    )


def _is_on_gpu(name: str, device: str, arrays: str | None) -> bool:
    if device not in ("cpu", "cuda"):
        raise Error(f"{name}: expected device to be 'cpu' or 'cuda', not {device!r}")
    if arrays is None:
        return device == "cuda"
    if device == "cpu":
        raise Error(f'{name}: arrays={arrays!r} is for operators on a GPU, device="cuda"')
    from opgraft._cuda._gpu_arrays import LIBRARIES

    if arrays not in LIBRARIES:
        raise Error(f"{name}: expected arrays to be 'torch' or 'cupy', not {arrays!r}")
    return True


def _read(
    implementation: Callable[..., Any], name: str, scope: Mapping[str, Any], on_gpu: bool
) -> _signature.Signature:
    if not isinstance(implementation, type):
        if not callable(implementation):
            raise Error(f"{name}: expected a function or a class, not {implementation!r}")
        return _signature.read(implementation, name, scope, is_method=False, on_gpu=on_gpu)
    compute = getattr(implementation, "compute", None)
    if not callable(compute):
        raise Error(f"{name}: the class {implementation.__name__} has no method 'compute'")
    is_method = isinstance(inspect.getattr_static(implementation, "compute"), FunctionType)
    signature = _signature.read(compute, name, scope, is_method=is_method, on_gpu=on_gpu)
    if signature.attributes:
        raise Error(
            f"{name}: '{signature.attributes[0].name}' is a keyword-only parameter of compute; "
            "the attributes of a class are parameters of its __init__"
        )
    init: Any = getattr(implementation, "__init__")  # noqa: B009 - mypy thinks of an instance's
    if init is not object.__init__:
        signature.attributes = _signature.read_attributes(init, name, scope)
    return signature


def _rule_attributes(
    shape: Callable[..., Any], name: str, signature: _signature.Signature
) -> list[str]:
    """Returns the attributes that a shape rule takes; raises if it does not fit the operator."""
    parameters = inspect.signature(shape).parameters.values()
    names = [one.name for one in signature.attributes]
    taken = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        taken = names
    unknown = [one for one in taken if one not in names]
    if unknown:
        raise Error(
            f"{name}: its shape rule takes '{unknown[0]}', which is not one of its attributes"
        )
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    is_open = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    inputs = signature.inputs
    is_variadic = bool(inputs) and inputs[-1].occurrence == _signature.VARIADIC
    expected = len(inputs) - is_variadic
    required = sum(p.default is p.empty for p in positional)
    if (
        required > expected
        or (len(positional) < expected and not is_open)
        or (is_variadic and not is_open)
    ):
        raise Error(
            f"{name}: its shape rule must take {len(inputs)} shapes, one for each input, in order"
            + (", with '*' for the last ones" if is_variadic else "")
        )
    return taken


def count_outputs(outputs: Sequence[_pyop.Parameter]) -> int:
    """Returns the number of outputs, or -1 if the node chooses it."""
    is_variadic = bool(outputs) and outputs[-1].occurrence == _signature.VARIADIC
    return -1 if is_variadic else len(outputs)


def _register(operator: Operator) -> None:
    _pyop.declare(operator.schema)
    _operators[operator.full_name] = operator
    when_imported("onnx", _tell_onnx)
    tell_torch()


def _tell_onnx() -> None:
    from opgraft._declare import _in_onnx

    _in_onnx.register_declared()


def read_backward(
    name: str, function: Callable[..., Any], signature: _signature.Signature
) -> Backward:
    return Backward.read(
        name,
        function,
        [one.name for one in signature.inputs],
        [one.name for one in signature.outputs],
        [one.name for one in signature.attributes],
    )


def find(full_name: str) -> Operator:
    return _operators[full_name]


def operators() -> list[Operator]:
    return list(_operators.values())


class Made(NamedTuple):
    """What the bridge needs to run a node."""

    compute: Callable[..., Any]
    copy_inputs: bool
    #: Takes the shapes of the inputs and the number of outputs, returns the outputs' shapes.
    rule: Callable[[Sequence[Any], int], list[Any]] | None
    takes_out: bool
    pure: bool
    one_worker: bool


def make(full_name: str, given: Mapping[str, Any]) -> Made:
    """Makes the operator for a node with these attributes."""
    operator = _operators[full_name]
    rule = None
    if operator.rule is not None:
        arguments = operator.arguments(given)
        apply = operator.rule.apply

        def rule(shapes: Sequence[Any], outputs: int) -> list[Any]:
            return apply(shapes, arguments, outputs)

    return Made(
        operator.make(given),
        operator.copy_inputs,
        rule,
        operator.takes_out,
        operator.pure,
        operator.one_worker,
    )


def infer(
    full_name: str, shapes: Sequence[Known], given: Mapping[str, Any], outputs: int
) -> list[Known]:
    """Returns the shapes of the outputs by the shape rule; the inputs' sizes may be unknown."""
    operator = _operators[full_name]
    if operator.rule is None:
        return [None] * outputs
    return operator.rule.infer(shapes, operator.arguments(given), outputs)
