"""Tensors of torch's on the CPU, given to a session."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

import opgraft
from conftest import Write, pyop_model

torch = pytest.importorskip("torch")


def session(body: str, inputs: str, outputs: str, **named: Any) -> opgraft.InferenceSession:
    graph = f"g ({inputs}) => ({outputs}) {{ {body} }}"
    return opgraft.InferenceSession(
        onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {graph}'), **named
    )


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("float", "float32"),
        ("double", "float64"),
        ("float16", "float16"),
        ("bfloat16", "bfloat16"),
        ("float8e5m2", "float8_e5m2"),
        ("int64", "int64"),
        ("bool", "bool"),
    ],
)
def test_types(kind: str, dtype: str) -> None:
    if "bfloat16" in dtype or "float8" in dtype:
        pytest.importorskip("ml_dtypes")
    one = session("y = Identity(x)", f"{kind}[n, m] x", f"{kind}[n, m] y")
    x = (torch.arange(6).reshape(2, 3) % 2).to(getattr(torch, dtype))
    (y,) = one.run(None, {"x": x})
    assert isinstance(y, torch.Tensor) and x.dtype == y.dtype
    assert torch.equal(x.double(), y.double())


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[:, ::2],
        lambda x: x.requires_grad_(),
        lambda x: torch.complex(x, x).conj().imag,
        lambda x: torch.nn.Parameter(x),
    ],
)
def test_views(view: Any) -> None:
    one = session("y = Neg(x)", "float[n, m] x", "float[n, m] y")
    x = view(torch.arange(6.0).reshape(2, 3))
    (y,) = one.run(None, {"x": x})
    assert torch.equal(y, -x.detach())


def test_beside_arrays_of_numpy_and_strings() -> None:
    one = session("y = Add(x, k) t = Identity(s)", "float[n] x, float[n] k, string[m] s",
                  "float[n] y, string[m] t")  # fmt: skip
    feed = {"x": torch.ones(2), "k": np.float32([1, 2]), "s": np.array(["a", "b"])}
    y, t = one.run(["y", "t"], feed)
    assert y.tolist() == [2, 3] and list(t) == ["a", "b"]


def test_an_error_is_that_of_the_operator(write_module: Write) -> None:
    module = write_module("""
    class Op:
        def compute(self, x):
            raise LookupError("not there")
    """)
    one = opgraft.InferenceSession(pyop_model(module), allow=[module])
    with pytest.raises(opgraft.PyOpError, match="LookupError: not there") as raised:
        one.run(None, {"x": torch.ones(3)})
    assert isinstance(raised.value.__cause__, LookupError)


def test_a_model_is_run_once() -> None:
    """With an output that Opgraft itself hands to NumPy, too."""
    pytest.importorskip("ml_dtypes")
    calls = []

    @opgraft.op("once::Op", shape=lambda x: x)
    def operator(x: np.ndarray) -> np.ndarray:
        calls.append(x.tolist())
        if len(calls) == 1:
            raise KeyboardInterrupt
        return x

    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 21, "once": 1]>
        g (float[n] x) => (bfloat16[n] y) { a = once.Op(x) y = Cast<to = 16>(a) }""")
    one = opgraft.InferenceSession(model)
    with pytest.raises(KeyboardInterrupt):
        one.run(None, {"x": torch.ones(2)})
    assert calls == [[1, 1]]
    (y,) = one.run(None, {"x": torch.ones(2)})
    assert y.dtype == torch.bfloat16 and len(calls) == 2


def test_what_cannot_be_taken() -> None:
    one = session("y = Identity(x)", "float[n] x", "float[n] y")
    with pytest.raises(
        opgraft.Error, match="input 'x', a torch tensor, cannot be converted to an array"
    ):
        one.run(None, {"x": torch.ones(3).to_sparse()})
    with pytest.raises(
        opgraft.Error, match="input 'x', a torch tensor, cannot be converted to an array"
    ):
        one.run(None, {"x": torch.ones(3, dtype=torch.bfloat16).to_sparse()})
    with pytest.raises(opgraft.Error, match="input 'x' is on the device meta, which this session"):
        one.run(None, {"x": torch.ones(3, device="meta")})


def test_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from opgraft._cuda import _provider

    monkeypatch.setattr(_provider, "find_problem", lambda: "none here")
    with pytest.warns(UserWarning, match="OpgraftCUDA is not available: none here"):
        one = session("y = Neg(x)", "float[n] x", "float[n] y",
                      providers=["OpgraftCUDA", "CPUExecutionProvider"])  # fmt: skip
    (y,) = one.run(None, {"x": torch.ones(3)})
    assert y.tolist() == [-1, -1, -1]
