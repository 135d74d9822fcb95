"""What operators of ours say in torch where a call cannot be: what was expected, what came, what
to do."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from eager_operators import pack_operators, python_operators

import opgraft
import opgraft.torch

torch = pytest.importorskip("torch", reason="torch is not installed")

X = torch.ones(2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: python_operators.Affine(X.half()),
            "eager.py::Affine: input 0, 'x', is float16, expected one of float32, float64. Fix: "
            "convert it, as in x.to(torch.float32)",
        ),
        (
            lambda: pack_operators.Add(X.int(), X),
            "eager.pack::Add: input 0, 'a', is int32, expected one of float32, float64. Fix",
        ),
        (
            lambda: pack_operators.Add(X, X.double()),
            "eager.pack::Add: input 1, 'b', is float64, expected float32, the type of input 0, 'a'."
            " Fix: convert it, as in x.to(other.dtype)",
        ),
        (
            lambda: python_operators.Cube(X.to(torch.complex64)),
            "eager.py::Cube: input 0, 'x', is complex64, which ONNX Runtime's operators do not "
            "support. Fix: convert it, as in torch.view_as_real(x)",
        ),
        (
            lambda: python_operators.Cube(X.to_sparse()),
            "eager.py::Cube: input 0, 'x', is a tensor of layout torch.sparse_coo on the device "
            "cpu, expected a dense tensor (torch.strided) on the CPU. Fix: x.to_dense",
        ),
        (
            lambda: pack_operators.Copy(torch.empty(2, dtype=torch.bits8)),
            "eager.pack::Copy: input 0, 'x', is torch.bits8, which ONNX tensors cannot have",
        ),
        (
            lambda: pack_operators.Sum([]),
            "eager.pack::Sum: expected at least 1 input, got 0",
        ),
        (
            lambda: pack_operators.Windows(torch.ones(2, 2)),
            "eager.pack::Windows: expected a vector",
        ),
        (
            lambda: pack_operators.Add(torch.ones(2), torch.ones(3)),
            "eager.pack::Add: the shapes [2] and [3] cannot be broadcast",
        ),
        (lambda: pack_operators.Fail(X), "eager.pack::Fail: as told"),
        (
            lambda: pack_operators.OnGpu(X),
            "eager.pack::OnGpu: its only kernel for these types is for CUDA, but here it runs on "
            "the CPU",
        ),
        (
            lambda: python_operators.Rows(X, outputs=-1),
            "eager.py::Rows: expected 0 or more outputs, not -1",
        ),
        (
            lambda: python_operators.Rows(X, outputs=3),
            "eager.py::Rows: its shape rule raised opgraft.Error: the shape rule of eager.py::Rows "
            "must return 3 shapes",
        ),
        (
            lambda: pack_operators.Affine(X, labels=["\ud800"]),
            "labels",
        ),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises((opgraft.Error, RuntimeError, UnicodeError), match=re.escape(text)):
        call()


def test_what_the_schema_refuses_names_the_operator() -> None:
    for call in (
        lambda: python_operators.Cube(),
        lambda: python_operators.Cube(X, X),
        lambda: python_operators.Affine(X, axis=1),
        lambda: python_operators.Affine(X, factor="a"),
        lambda: python_operators.Cube(np.ones(2)),
        lambda: python_operators.Join(X, axis=None),
        lambda: python_operators.Rows(X),
    ):
        with pytest.raises((RuntimeError, TypeError), match="eager_py::"):
            call()


def test_kinds_of_errors() -> None:
    with pytest.raises(opgraft.ModelError):
        pack_operators.Fail(X)
    with pytest.raises(opgraft.UnavailableError):
        pack_operators.OnGpu(X)
    with pytest.raises(opgraft.Error) as caught:
        python_operators.Affine(X.half())
    assert type(caught.value) is opgraft.Error


def test_an_exception_of_the_operator() -> None:
    with pytest.raises(opgraft.PyOpError) as caught:
        python_operators.Raise(X)
    assert type(caught.value.__cause__) is LookupError
    assert caught.value.__cause__.args == ("not found", (2,))
    text = str(caught.value)
    assert text.startswith("eager.py::Raise: the operator raised LookupError: ('not found', (2,))")
    assert 'raise LookupError("not found", x.shape)' in text  # its traceback
    assert python_operators.Cube(X).tolist() == [1, 1]


def test_interrupts_pass() -> None:
    @opgraft.op("eager.test::Interrupt")
    def interrupt(x: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        torch.ops.eager_test.Interrupt(X)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.ones(3, np.float32), "expected an array of shape (2), as its shape rule says"),
        (
            lambda: np.ones((2, 1), np.float32),  # which nobody else has
            "expected an array of shape (2), as its shape rule says",
        ),
        (
            np.ones(2),
            "expected a NumPy array of float32, but the operator returned a float64 array",
        ),
        (None, "expected a NumPy array of float32, but the operator returned None"),
        ((np.ones(2, np.float32),) * 2, "expected the operator to return one array"),
        (torch.ones(2), "expected a NumPy array of float32, but the operator returned a Tensor"),
    ],
)
def test_what_an_operator_must_not_return(value: Any, text: str) -> None:
    @opgraft.op("eager.test::Returned", shape=lambda x: x)
    def returned(x: np.ndarray) -> np.ndarray:
        return value() if callable(value) else value  # type: ignore[no-any-return]

    with pytest.raises(opgraft.PyOpError, match="eager.test::Returned: .*" + re.escape(text)):
        torch.ops.eager_test.Returned(X)


def test_inputs_are_read_only_unless_they_are_copies() -> None:
    @opgraft.op("eager.test::Write")
    def write(x: np.ndarray) -> np.ndarray:
        x += 1
        return x

    @opgraft.op("eager.test::WriteToCopy", copy_inputs=True)
    def write_to_copy(x: np.ndarray) -> np.ndarray:
        x += 1
        return x

    @opgraft.op("eager.test::MakeWriteable")
    def make_writeable(x: np.ndarray) -> np.ndarray:
        x.flags.writeable = True
        return x

    with pytest.raises(opgraft.PyOpError, match="(?s)read-only.*copy_inputs=True"):
        torch.ops.eager_test.Write(X)
    with pytest.raises(opgraft.PyOpError, match="cannot set WRITEABLE flag"):
        torch.ops.eager_test.MakeWriteable(X)
    assert torch.ops.eager_test.WriteToCopy(X).tolist() == [2, 2] and X.tolist() == [1, 1]


def test_a_shape_rule_that_fails() -> None:
    @opgraft.op("eager.test::BadRule", shape=lambda x: x[5])
    def bad_rule(x: np.ndarray) -> np.ndarray:
        return x + 1

    @opgraft.op("eager.test::OpenOut", shape=lambda x: (None,))
    def open_out(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        return out

    with pytest.raises(opgraft.PyOpError, match="BadRule: its shape rule raised IndexError"):
        torch.ops.eager_test.BadRule(X)
    with pytest.raises(opgraft.PyOpError, match="OpenOut: it takes 'out', but its shape rule"):
        torch.ops.eager_test.OpenOut(X)


def test_operators_that_torch_cannot_have() -> None:
    @opgraft.op("eager.test::Strings")
    def strings(x: npt.NDArray[np.str_]) -> npt.NDArray[np.int64]:
        return np.array([len(one) for one in x])

    @opgraft.op("eager.test::Table")
    def table(x: np.ndarray, *, table: np.ndarray) -> np.ndarray:
        return table[x]

    with pytest.raises(opgraft.Error, match="Strings cannot be an operator of torch's: 'x' is a t"):
        opgraft.torch.operator("eager.test::Strings")
    with pytest.raises(opgraft.Error, match="its attribute 'table' is a tensor.*make it an input"):
        opgraft.torch.operator("eager.test::Table")
    assert not hasattr(torch.ops.eager_test, "Table")
    with pytest.raises(opgraft.Error, match="no operator 'eager.py::Cub'.*'eager.py::Cube'"):
        opgraft.torch.operator("eager.py::Cub")
