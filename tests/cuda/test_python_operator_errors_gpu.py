"""Python operators on a real GPU that go wrong, and such operators in torch itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fake_models import model

import opgraft

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(),
    reason="there is no GPU: run these tests where there is one (docs/cuda.md)",
)
PROVIDERS = ["OpgraftCUDA", "CPUExecutionProvider"]
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def session(body: str) -> opgraft.InferenceSession:
    return opgraft.InferenceSession(model(body), providers=PROVIDERS)


# Errors, after which the session lives on.


@pytest.fixture
def wrong() -> Iterator[dict[str, Any]]:
    """What my::Wrong returns, for the input; nothing: what it should."""
    given: dict[str, Any] = {}

    @opgraft.op("my::Wrong", device="cuda", shape=lambda x: x)
    def returns(x: torch.Tensor) -> torch.Tensor:
        return given["make"](x) if given else x + 1

    yield given


HERE = "expected a torch.Tensor of float32 on GPU 0, but the operator returned "
WRONG: dict[str, tuple[Any, str]] = {
    "cpu": (
        lambda x: x.cpu(),
        HERE + r"a float32 tensor of shape \(2, 3\) on cpu. Fix: make it on the device of",
    ),
    "type": (lambda x: x.half(), HERE + r".*Fix: return value.to\(torch.float32\)"),
    "shape": (lambda x: x[0], "expected an array of shape .* a float32 tensor of shape"),
    "sparse": (lambda x: x.to_sparse(), HERE + ".*of layout torch.sparse_coo.*to_dense"),
    "numpy": (lambda x: x.cpu().numpy(), HERE + "a float32 array .* of NumPy's"),
    "number": (lambda x: 1.0, HERE + "a float"),
    "nothing": (lambda x: None, HERE + "None"),
    "raises": (lambda x: x @ x, "(?s)raised RuntimeError: .*shapes"),
}


@pytest.mark.parametrize("what", WRONG)
def test_errors(wrong: dict[str, Any], what: str) -> None:
    make, message = WRONG[what]
    one = session("y = my.Wrong(x)")
    for x in (X, torch.from_numpy(X).cuda()):
        wrong["make"] = make
        with pytest.raises(opgraft.PyOpError, match=message) as raised:
            one.run(None, {"x": x})
        assert (raised.value.__cause__ is not None) == (what == "raises")
        wrong.clear()
        (y,) = one.run(None, {"x": x})
        np.testing.assert_array_equal(np.asarray(torch.as_tensor(y).cpu()), X + 1)


@pytest.mark.parametrize("what", ["input", "view", "out"])
def test_tensors_that_are_kept(what: str) -> None:
    kept: list[Any] = []

    @opgraft.op("my::Keeps", device="cuda", shape=lambda x: x)
    def keeps(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        kept.append({"input": x, "view": x[0], "out": out}[what])
        return torch.add(x, 1, out=out)

    one = session("y = my.Keeps(x)")
    with pytest.raises(opgraft.PyOpError, match=r"kept an input or 'out'.*x.clone\(\)"):
        one.run(None, {"x": X})
    with pytest.raises(opgraft.PyOpError, match="not run, since"):
        one.run(None, {"x": X})
    assert len(kept) == 1
    kept.clear()
    with pytest.raises(opgraft.PyOpError, match="kept an input"):
        one.run(None, {"x": X})


def test_copies_may_be_kept() -> None:
    kept: list[Any] = []

    @opgraft.op("my::Keeps", device="cuda", copy_inputs=True)
    def keeps(x: torch.Tensor) -> torch.Tensor:
        kept.append(x)
        return x + 1

    one = session("y = my.Keeps(x)")
    for _ in range(3):
        np.testing.assert_array_equal(one.run(None, {"x": X})[0], X + 1)
    assert all(np.array_equal(x.cpu(), X) for x in kept)


def test_out_that_is_changed() -> None:
    @opgraft.op("my::Changes", device="cuda", shape=lambda x: x)
    def changes(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        out.data = x + 1
        return out

    with pytest.raises(opgraft.PyOpError, match="type or shape of 'out' for output 0"):
        session("y = my.Changes(x)").run(None, {"x": X})


# In torch itself.


def test_in_eager_mode() -> None:
    import opgraft.torch

    @opgraft.op(
        "my::Doubles", device="cuda", shape=lambda x: x, backward=lambda gradient: 2 * gradient
    )
    def doubles(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        return torch.add(x, x, out=out)

    x = torch.arange(3.0, device="cuda", requires_grad=True)
    y = torch.ops.my.Doubles(x)
    assert torch.equal(y, 2 * x) and y.device == x.device
    y.sum().backward()
    assert bool((x.grad == 2).all())
    with pytest.raises(opgraft.Error, match="my::Doubles runs on GPUs alone"):
        torch.ops.my.Doubles(x.detach().cpu())
    program = opgraft.torch.export(torch.ops.my.Doubles, (x.detach(),))
    assert program.report.verified
    torch.testing.assert_close(program(x.detach())[0].cpu(), (2 * x).detach().cpu())


def test_an_operator_of_cupy_in_eager_mode() -> None:
    cupy = pytest.importorskip("cupy")
    import opgraft.torch

    @opgraft.op("my::Sorts", device="cuda", arrays="cupy", shape=lambda x: x)
    def sorts(x: np.ndarray) -> np.ndarray:
        return cupy.sort(x)  # type: ignore[no-any-return]

    with torch.cuda.stream(torch.cuda.Stream()):
        x = torch.tensor([3.0, 1.0, 2.0], device="cuda")
        assert torch.ops.my.Sorts(x).tolist() == [1, 2, 3]
