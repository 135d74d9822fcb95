"""Operators of ours as torch's, called one by one: values, memory, types, errors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from eager_operators import Count, pack_operators, python_operators, seen

import opgraft
import opgraft.torch

torch = pytest.importorskip("torch", reason="torch is not installed")

NUMBERS = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64".split()
RARE = "bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz".split()


def floats(*shape: int) -> Any:
    return torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(shape)


def test_a_function() -> None:
    y = python_operators.Cube(floats(2, 3))
    assert type(y) is torch.Tensor and y.dtype == torch.float32 and not y.requires_grad
    assert y.tolist() == [[0, 1, 8], [27, 64, 125]]
    assert opgraft.torch.operator("eager.py::Cube") is python_operators.Cube.default


@pytest.mark.parametrize("operators", [python_operators, pack_operators])
def test_optional_inputs_and_attributes(operators: Any) -> None:
    x = floats(2) + 1
    assert operators.Affine(x).tolist() == [1, 2]
    assert operators.Affine(x, x).tolist() == [1, 4]
    assert operators.Affine(x, None, x).tolist() == [2, 4]
    assert operators.Affine(x, shift=x, factor=3).tolist() == [4, 8]
    assert operators.Affine(x, factor=0.5).tolist() == [0.5, 1]
    assert operators.Affine(x).tolist() == [1, 2]


def test_an_optional_input_that_is_not_the_last() -> None:
    x = floats(2)
    assert pack_operators.Late(x, None, []).tolist() == [0, 1]
    assert pack_operators.Late(x, x, []).tolist() == [0, 2]
    assert pack_operators.Late(x, None, [x, x]).tolist() == [20, 21]
    schema = str(pack_operators.Late.default._schema)
    assert schema.endswith("(Tensor x, Tensor? a, Tensor[] more) -> Tensor")


def test_attributes_of_python() -> None:
    affine = python_operators.Affine
    affine(floats(1))
    assert seen == [1.0, None, "plain", False, (1.0, 0.5), ["a", "b"]]
    affine(floats(1), factor=0.1, signs=[1, -1], mode='it\'s "new"', weights=[], labels=["c"])
    assert seen == [float(np.float32(0.1)), [1, -1], 'it\'s "new"', False, (), ["c"]]
    assert affine(floats(1) + 1, negate=True).item() == -1 and seen[3] is True
    affine(floats(1), factor=0.0)
    assert str(seen[0]) == "0.0"
    affine(floats(1), factor=-0.0)
    assert str(seen[0]) == "-0.0"
    affine(floats(1), factor=float("inf"))
    assert seen[0] == float("inf")
    with pytest.raises(
        opgraft.Error, match="Affine: attribute 'factor' is 1e.300, expected a numb"
    ):
        affine(floats(1), factor=1e300)


def test_attributes_of_a_pack() -> None:
    affine = pack_operators.Affine
    assert affine(floats(2) + 1, signs=[1, -1]).tolist() == [1, -2]
    assert affine(floats(2) + 1, mode="negate", labels=["a", "b", "c"]).tolist() == [0, -1]
    for width in range(1, 30):  # more than are kept ready
        assert pack_operators.Windows(floats(30), width=width).shape == (31 - width, width)
    assert pack_operators.Windows(floats(3)).tolist() == [[0, 1], [1, 2]]


def test_lists_of_inputs_and_outputs() -> None:
    x = floats(2, 2)
    assert python_operators.Join([x]).tolist() == x.tolist()
    assert torch.equal(python_operators.Join([x, x, x], axis=1), torch.cat([x, x, x], 1))
    assert torch.equal(pack_operators.Sum([x, x, x]), 3 * x)
    assert [one.tolist() for one in python_operators.Rows(x, outputs=2)] == [[0, 1], [2, 3]]
    assert len(pack_operators.Repeat(x, outputs=3)) == 3
    low, high = pack_operators.Halves(x)
    assert torch.equal(low, x / 2) and torch.equal(high, x / 2)
    low, high, place = python_operators.Extremes(x)
    assert low.tolist() == [0, 2] and high.tolist() == [1, 3] and place.dtype == torch.int64


def test_a_class_has_one_object_for_each_set_of_attributes() -> None:
    Count.made = 0
    count = python_operators.Count
    # Objects stay: these starts are no other test's.
    assert [count(floats(1), start=20).item() for _ in range(3)] == [21, 22, 23]
    assert [count(floats(1), start=s).item() for s in (30, 20)] == [31, 24]
    assert count(floats(1).double(), start=20).item() == 25 and Count.made == 2
    assert count(floats(1).requires_grad_(), start=20).item() == 26 and Count.made == 2


def test_nothing_is_copied() -> None:
    x = floats(3, 4)
    y = python_operators.Seen(x)
    given, returned = seen
    assert isinstance(given, dict) and isinstance(returned, dict)
    assert given["data"] == (x.data_ptr(), True)  # read-only
    assert returned["data"][0] == y.data_ptr()
    python_operators.Seen(x.T)
    assert seen[0]["data"][0] == x.data_ptr() and seen[0]["strides"] == (4, 16)  # type: ignore[index]
    assert pack_operators.Addresses(x)[0].item() == x.data_ptr()
    result = pack_operators.Addresses(x[1:])
    assert result.tolist() == [x.data_ptr() + 16, result.data_ptr()]
    # A kernel wants its elements in one block.
    assert pack_operators.Addresses(x.T)[0].item() != x.data_ptr()
    assert torch.equal(pack_operators.Copy(x.T), x.T)
    assert result.data_ptr() % 64 == 0


def test_memory_of_outputs_is_theirs_alone() -> None:
    kept: list[np.ndarray] = []

    @opgraft.op("eager.test::Alias")
    def alias(x: np.ndarray, *, what: str) -> np.ndarray:
        if what == "view":
            return x[1:]
        if what == "reversed":
            return x[::-1].copy()[::-1]
        if what == "part":
            return np.concatenate([x, x])[: len(x)]
        if what == "transposed":
            return np.stack([x, x]).T
        if what.startswith("kept"):
            kept.append(np.array(x))
            return kept[-1] if what == "kept" else kept[-1].reshape(3, 1)
        return x

    @opgraft.op("eager.test::Twice")
    def twice(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y = x + 1
        return y, y

    x = floats(3)
    for what, expected in {
        "same": [0, 1, 2],
        "view": [1, 2],
        "reversed": [0, 1, 2],
        "part": [0, 1, 2],
        "kept": [0, 1, 2],
        "kept, a view": [[0], [1], [2]],
        "transposed": [[0, 0], [1, 1], [2, 2]],
    }.items():
        y = torch.ops.eager_test.Alias(x, what=what)
        assert y.tolist() == expected and y.is_contiguous(), what
        y += 10
        assert x.tolist() == [0, 1, 2], what
    assert [one.tolist() for one in kept] == [[0, 1, 2]] * 2
    first, second = torch.ops.eager_test.Twice(x)
    first += 10
    assert second.tolist() == [1, 2, 3]


def test_memory_lives_as_long_as_it_is_used_and_no_longer() -> None:
    last: list[Any] = []

    @opgraft.op("eager.test::Keep")
    def keep(x: np.ndarray) -> np.ndarray:
        y = x * 2
        last[:] = [x, weakref.ref(y)]
        return y

    y = torch.ops.eager_test.Keep(floats(1000))
    gc.collect()
    kept, result = last
    assert kept.sum() == 499500  # the tensor is gone, its memory is not
    assert result() is not None
    del y
    assert result() is None


def test_out() -> None:
    kept: list[np.ndarray] = []

    @opgraft.op("eager.test::Out", shape=lambda x, *, how: (x, x))
    def several(
        x: np.ndarray, *, how: str, out: tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        np.add(x, 1, out=out[0])
        np.add(x, 2, out=out[1])
        if how == "keep":
            kept.extend(out)
        if how == "others":
            return x * 10, out[1]
        return out if how == "returned" else None  # type: ignore[return-value]

    assert python_operators.AddOut(floats(2, 1), floats(3)).tolist() == [[0, 1, 2], [1, 2, 3]]
    for how in ("nothing", "returned", "keep"):
        one, two = torch.ops.eager_test.Out(floats(2), how=how)
        assert one.tolist() == [1, 2] and two.tolist() == [2, 3], how
    one += 10
    assert kept[0].tolist() == [1, 2]
    one, two = torch.ops.eager_test.Out(floats(2), how="others")
    assert one.tolist() == [0, 10] and two.tolist() == [2, 3]


@pytest.mark.parametrize("dtype", NUMBERS + RARE)
def test_types(dtype: str) -> None:
    if dtype in RARE:
        pytest.importorskip("ml_dtypes")
    x = torch.tensor([[0, 1, 1]]).to(getattr(torch, dtype))
    y = python_operators.Seen(x)
    assert y.dtype == x.dtype and torch.equal(y.double(), x.double())
    if dtype in ("float32", "float64", "int64", "bool", "float16", "bfloat16"):
        y = pack_operators.Copy(x)
        assert y.dtype == x.dtype and torch.equal(y.double(), x.double())


def test_scalars_and_empty_tensors() -> None:
    for operator in (python_operators.Cube, pack_operators.Copy, python_operators.Seen):
        y = operator(torch.tensor(1.0))
        assert y.shape == () and y.item() == 1
        for shape in ((0,), (2, 0, 3)):
            y = operator(torch.ones(shape))
            assert y.shape == shape and y.dtype == torch.float32
    assert python_operators.AddOut(torch.ones(0), torch.ones(1)).shape == (0,)
    assert python_operators.NoRule(torch.tensor(1.0)).shape == ()  # a NumPy scalar

    @opgraft.op("eager.test::Nothing", shape=lambda *, n: (n,))
    def nothing(*, n: int) -> npt.NDArray[np.float32]:
        return np.arange(n, dtype=np.float32)

    assert torch.ops.eager_test.Nothing(n=3).tolist() == [0, 1, 2]


def test_unusual_tensors() -> None:
    x = floats(2) + 1
    complex_ = torch.complex(torch.zeros(2), x)
    negative = complex_.conj().imag  # which has its sign beside its memory
    assert negative.is_neg()
    for operator in (python_operators.Seen, pack_operators.Copy):
        assert operator(negative).tolist() == [-1, -2]
        assert operator(torch._efficientzerotensor(2)).tolist() == [0, 0]
        assert operator(torch.nn.Parameter(x).detach()).tolist() == [1, 2]
        assert operator(x.expand(2, 2)).tolist() == [[1, 2], [1, 2]]
        with torch.inference_mode():
            y = operator(x * 2)
            assert y.tolist() == [2, 4] and y.is_inference()
        assert operator(x.pin_memory() if torch.cuda.is_available() else x).tolist() == [1, 2]


def test_modes_see_the_operators() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    names: list[str] = []

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any, kwargs: Any = None
        ) -> Any:
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    with Mode():
        assert python_operators.Cube(floats(2)).tolist() == [0, 1]
        assert pack_operators.Copy(floats(2)).tolist() == [0, 1]
    assert [one for one in names if "eager" in one] == [
        "eager_py.Cube.default",
        "eager_pack.Copy.default",
    ]


def test_an_operator_that_calls_itself() -> None:
    @opgraft.op("eager.test::Factorial")
    def factorial(x: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if x <= 1:
            return np.ones_like(x)
        lower = torch.ops.eager_test.Factorial(torch.from_numpy(x - 1))
        return x * lower.numpy()

    assert torch.ops.eager_test.Factorial(torch.tensor([10])).tolist() == [3628800]
