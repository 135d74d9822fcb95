"""Gradients of operators of ours: by the backward that is given, or an error that says so."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from eager_operators import pack_operators, python_operators

import opgraft
import opgraft.torch

torch = pytest.importorskip("torch", reason="torch is not installed")


def doubles(*shape: int) -> Any:
    return torch.rand(shape, dtype=torch.float64, requires_grad=True)


def test_gradients() -> None:
    x = doubles(3, 4)
    assert torch.autograd.gradcheck(python_operators.Cube, (x,))
    assert torch.autograd.gradgradcheck(python_operators.Cube, (x,))
    y = python_operators.Cube(x)
    assert y.requires_grad and y.grad_fn.name() == "CubeBackward"
    y.sum().backward()
    assert torch.allclose(x.grad, 3 * x**2)


def test_lists_attributes_and_several_outputs() -> None:
    join = python_operators.Join
    inputs = doubles(2, 3), doubles(2, 1)
    assert torch.autograd.gradcheck(lambda a, b: join([a, b, a], axis=1), inputs)
    fixed = torch.ones(1, 3).double()
    assert torch.autograd.gradcheck(lambda a: join([fixed, a]), (doubles(2, 3),))
    low_and_high = lambda x: python_operators.Extremes(x)[:2]  # noqa: E731
    assert torch.autograd.gradcheck(low_and_high, (doubles(2, 3),))
    low, high, place = python_operators.Extremes(doubles(2, 3))
    assert low.requires_grad and high.requires_grad and not place.requires_grad
    x = doubles(3)
    python_operators.Extremes(x)[1].backward()  # the others' gradients are zeros
    assert x.grad.tolist() == [float(one == x.max()) for one in x]


def test_optional_inputs() -> None:
    @opgraft.op(
        "gradient.test::Scale",
        shape=lambda x, scale: x,
        backward=lambda gradient, x, scale, *, factor: (
            gradient * factor * (1 if scale is None else scale),
            None if scale is None else gradient * factor * x,
        ),
    )
    def scale(x: np.ndarray, scale: np.ndarray | None = None, *, factor: float = 2.0) -> np.ndarray:
        return x * factor if scale is None else x * scale * factor

    operator = torch.ops.gradient_test.Scale
    assert torch.autograd.gradcheck(operator, (doubles(3),))
    assert torch.autograd.gradcheck(operator, (doubles(3), doubles(3)))
    assert torch.autograd.gradcheck(lambda x: operator(x, factor=0.5), (doubles(3),))
    assert torch.autograd.gradcheck(lambda s: operator(torch.ones(3).double(), s), (doubles(3),))


def test_a_backward_for_a_pack() -> None:
    x, y = doubles(3), doubles(3)
    opgraft.torch.register_backward(
        "eager.pack::Affine",
        lambda gradient, x, scale, *, factor, mode: (
            gradient * factor * scale * (-1 if mode == "negate" else 1),
            gradient * factor * x * (-1 if mode == "negate" else 1),
            None,
        ),
    )
    affine = pack_operators.Affine
    assert torch.autograd.gradcheck(lambda a, b: affine(a, b, factor=3.0), (x, y))
    assert torch.autograd.gradcheck(lambda a, b: affine(a, b, mode="negate"), (x, y))
    opgraft.torch.register_backward("eager.pack::Halves", lambda low, high: (low + high) / 2)
    assert torch.autograd.gradcheck(pack_operators.Halves, (x,))
    opgraft.torch.register_backward(
        "eager.pack::Repeat",
        lambda gradients: sum(gradients),  # of all outputs, in a list
    )
    assert torch.autograd.gradcheck(lambda a: tuple(pack_operators.Repeat(a, outputs=3)), (x,))
    opgraft.torch.register_backward("eager.pack::Sum", lambda gradient, xs: [gradient for _ in xs])
    assert torch.autograd.gradcheck(lambda a, b: pack_operators.Sum([a, b, a]), (x, y))
    assert torch.autograd.gradcheck(lambda a: pack_operators.Sum([a]), (x,))


def test_without_a_backward() -> None:
    x = doubles(3)
    for operator, name in (
        (python_operators.Affine, "eager.py::Affine"),
        (pack_operators.Add, "eager.pack::Add"),
    ):
        y = operator(x, x)
        assert y.requires_grad
        text = (
            f"{name}: a gradient is wanted, but it has no backward. Fix: declare it with "
            f'@opgraft.op("{name}", ..., backward=lambda gradient, '
        )
        with pytest.raises(opgraft.Error, match=re.escape(text)) as caught:
            y.sum().backward()
        assert f'opgraft.torch.register_backward("{name}", ...)' in str(caught.value)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with torch.no_grad():
                assert not operator(x, x).requires_grad
            assert not operator(x.detach(), x.detach()).requires_grad


def test_no_more_than_is_named_is_saved() -> None:
    saved: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor
    ):
        x = doubles(3)
        python_operators.Cube(x)
        assert [one.data_ptr() for one in saved] == [x.data_ptr()]
        saved.clear()
        pack_operators.Add(x, x)
        assert saved == []
        with torch.no_grad():
            python_operators.Cube(x)
        assert saved == []


def test_no_grad_runs_no_code_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where no gradient is wanted: it would cost."""
    from opgraft.torch._eager import _gradient

    def refuse(*args: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(_gradient, "_flatten", refuse)
    parameter = torch.nn.Parameter(torch.ones(2))
    with torch.no_grad():
        assert python_operators.Cube(parameter).tolist() == [1, 1]
    assert python_operators.Cube(torch.ones(2)).tolist() == [1, 1]
    with torch.inference_mode():
        assert pack_operators.Copy(parameter).tolist() == [1, 1]
    with pytest.raises(AssertionError):
        python_operators.Cube(parameter)


def test_compiled() -> None:
    def function(x: Any, y: Any) -> Any:
        low, high, _ = python_operators.Extremes(python_operators.Cube(x * 2))
        return (python_operators.Join([low, high, y]).sin() ** 2).sum()

    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    grads = []
    for run in (function, compiled):
        torch.manual_seed(0)
        x, y = doubles(4, 3), doubles(2)
        run(x, y).backward()
        grads.append((x.grad, y.grad))
    assert all(torch.allclose(one, other) for one, other in zip(*grads, strict=True))


def test_training() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(layer.parameters(), 0.05)
    x = torch.rand(32, 3)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = ((python_operators.Cube(layer(x)) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10


@pytest.mark.parametrize(
    ("backward", "text"),
    [
        (lambda: 1, "its backward must take 1 gradient, one for each output"),
        (lambda gradient, z: 1, "'z' is not one of them"),
        (lambda gradient, *, axis: 1, "'axis' is not an attribute"),
        (lambda gradient, *more: 1, r"'\*more' is not a name"),
        (3, "expected backward to be a function, not 3"),
    ],
)
def test_a_backward_that_does_not_fit(backward: Callable[..., Any], text: str) -> None:
    with pytest.raises(opgraft.Error, match=f"gradient.test::Bad: .*{text}"):

        @opgraft.op("gradient.test::Bad", backward=backward)
        def bad(x: np.ndarray, *, factor: float = 1) -> np.ndarray:
            return x

    with pytest.raises(opgraft.Error, match=text):
        opgraft.torch.register_backward("eager.pack::Copy", backward)


def test_what_a_backward_must_not_give() -> None:
    @opgraft.op("gradient.test::Two", shape=lambda x, y: x, backward=lambda gradient: gradient)
    def two(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x + y

    with pytest.raises(
        opgraft.Error, match="Two: its backward must return 2 gradients, one for each"
    ):
        torch.ops.gradient_test.Two(doubles(2), doubles(2)).sum().backward()
    opgraft.torch.register_backward("gradient.test::Two", lambda g: (g[:1].expand(5), None))
    with pytest.raises(RuntimeError, match="TwoBackward returned an invalid gradient at index 0"):
        torch.ops.gradient_test.Two(doubles(2), doubles(2)).sum().backward()
    opgraft.torch.register_backward("gradient.test::Two", lambda g: (1 / 0, None))
    with pytest.raises(ZeroDivisionError):
        torch.ops.gradient_test.Two(doubles(2), doubles(2)).sum().backward()
    opgraft.torch.register_backward("eager.pack::Sum", lambda gradient: [gradient])
    with pytest.raises(opgraft.Error, match="a list of 2 gradients for 'xs'"):
        pack_operators.Sum([doubles(2), doubles(2)]).sum().backward()


def test_forward_mode_is_refused() -> None:
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(opgraft.Error, match="Cube: a derivative is wanted in forward mode"):
            python_operators.Cube(dual)
        assert python_operators.Cube(torch.ones(2)).tolist() == [1, 1]
    with pytest.raises(opgraft.Error, match="Copy: a derivative is wanted in forward mode"):
        torch.func.jvp(pack_operators.Copy, (torch.ones(2),), (torch.ones(2),))


def test_transforms_of_functions() -> None:
    x = torch.rand(3, 2)
    assert torch.allclose(torch.func.vmap(pack_operators.Copy)(x), x)
    assert torch.allclose(torch.func.vmap(python_operators.Cube)(x), x**3)


def test_gradients_by_torch_func() -> None:
    cube, x = python_operators.Cube, torch.rand(3, dtype=torch.float64)

    def total(x: Any) -> Any:
        return cube(x).sum()

    assert torch.allclose(torch.func.grad(total)(x), 3 * x**2)
    assert torch.allclose(torch.func.grad(lambda x: torch.func.grad(total)(x).sum())(x), 6 * x)
    assert torch.allclose(torch.func.jacrev(cube)(x), torch.diag(3 * x**2))
    assert torch.allclose(torch.func.jacrev(torch.func.jacrev(total))(x), torch.diag(6 * x))
    assert torch.allclose(torch.func.vjp(cube, x)[1](x)[0], 3 * x**3)
    batch = torch.rand(4, 3, dtype=torch.float64)
    assert torch.allclose(torch.func.vmap(torch.func.grad(total))(batch), 3 * batch**2)
    sums = torch.func.grad(lambda x: torch.func.vmap(cube)(x).sum())(batch)
    assert torch.allclose(sums, 3 * batch**2)
    low = torch.func.grad(lambda x: python_operators.Extremes(x)[0].sum())(batch)
    assert torch.equal(low, (batch == batch.amin(1, keepdim=True)).double())
    joined = torch.func.grad(lambda x: (python_operators.Join([x, 2 * x]) ** 2).sum())(batch)
    assert torch.allclose(joined, 10 * batch)
    with pytest.raises(
        opgraft.Error, match="eager.py::Affine: a gradient is wanted, but it has no"
    ):
        torch.func.grad(lambda x: python_operators.Affine(x).sum())(x)


def test_batches_by_torch_func() -> None:
    x = torch.rand(4, 2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        joined = torch.func.vmap(lambda x: python_operators.Join([x, 2 * x], axis=1))(x)
    assert torch.equal(joined, torch.cat([x, 2 * x], 2))
    fixed = torch.rand(2, 1)
    joined = torch.func.vmap(lambda x: python_operators.Join([x, fixed], axis=1))(x)
    assert torch.equal(joined, torch.cat([x, fixed.expand(4, 2, 1)], 2))
    low, high, _ = torch.func.vmap(python_operators.Extremes, in_dims=2, out_dims=(1, 0, 0))(x)
    assert torch.equal(low, x.amin(1)) and torch.equal(high, x.amax(1).T)
    twice = torch.func.vmap(torch.func.vmap(python_operators.Affine))(x, 2 * x)
    assert torch.equal(twice, 2 * x * x)
    with pytest.raises(opgraft.Error, match="Cube: torch.func.vmap over a dimension of size 0"):
        torch.func.vmap(python_operators.Cube)(torch.ones(0, 3))

    @opgraft.op("gradient.test::Positive")
    def positive(x: np.ndarray) -> np.ndarray:
        return x[x > 0]

    with pytest.raises(opgraft.Error, match="Positive: in torch.func.vmap, output 0 has several"):
        torch.func.vmap(opgraft.torch.operator("gradient.test::Positive"))(
            torch.tensor([[1.0, -1.0], [1.0, 1.0]])
        )
