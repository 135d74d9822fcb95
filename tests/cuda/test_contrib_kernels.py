"""Kernels for kCudaExecutionProvider (opgraft/contrib_cuda.h), on the fake driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from fake_gpu import PROVIDERS, FakeGpu, needs_plugins
from pack_building import build_pack

import opgraft

pytestmark = needs_plugins
_FOLDER = Path(__file__).parent
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def pack(fake_gpu: FakeGpu) -> Path:
    library = build_pack([_FOLDER / "contrib_kernels.cc"], include=[_FOLDER / "fake_runtime"])
    opgraft.load(library)
    return library


def model(kind: str, attributes: str = "", more: str = "", inputs: str = "") -> onnx.ModelProto:
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18, "test.contrib_cuda": 1]> '
        f"g ({kind}[n, m] x{inputs}) => ({kind}[n, m] y) "
        f"{{ y = test.contrib_cuda.Scale {attributes} (x{more}) }}"
    )
    made.graph.node[0].name = "the_node"
    return made


def session(*arguments: str, providers: list[str] = PROVIDERS) -> opgraft.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return opgraft.InferenceSession(model(*arguments), options, providers=providers)


def run(*arguments: str, x: np.ndarray = X, **inputs: Any) -> Any:
    return session(*arguments).run(None, {"x": x, **inputs})[0]


def test_a_kernel_on_the_gpu(fake_gpu: FakeGpu) -> None:
    before = fake_gpu.counts()["launches"]
    np.testing.assert_array_equal(run("float"), X * 2)
    assert fake_gpu.counts()["launches"] == before + 2
    np.testing.assert_array_equal(run("float", x=X[:0]), X[:0])


def test_what_it_does_not_take_runs_on_the_cpu() -> None:
    np.testing.assert_array_equal(run("double", x=X.astype(np.float64)), X * 2 + 1)
    on_cpu = session("float", providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(on_cpu.run(None, {"x": X})[0], X * 2 + 1)


def test_an_input_in_host_memory() -> None:
    y = run("float", "", ", f", ", float[] f", f=np.array(5, np.float32))
    np.testing.assert_array_equal(y, X * 5)
    made = model("float", "", ", f")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array(7, np.float32), "f"))
    y = opgraft.InferenceSession(made, providers=PROVIDERS).run(None, {"x": X})[0]
    np.testing.assert_array_equal(y, X * 7)


def test_a_constant_on_the_gpu_is_not_read() -> None:
    made = model("float", "", ", f", ", float[] f")
    made.graph.input.pop(0)
    made.graph.initializer.append(onnx.numpy_helper.from_array(X, "x"))
    one = opgraft.InferenceSession(made, providers=PROVIDERS)
    np.testing.assert_array_equal(one.run(None, {"f": np.array(3, np.float32)})[0], X * 3)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("fails", "as told"),
        (
            "throws",
            "CUDA error cudaErrorInvalidConfiguration: invalid configuration argument, in "
            "cudaErrorInvalidConfiguration",
        ),
        ("returns", "CUDA error cudaErrorInvalidConfiguration: invalid configuration argument"),
        ("launch", "CUDA error cudaErrorInvalidConfiguration: invalid configuration argument"),
        (
            "threads",
            "memory of the GPU can only be allocated on the thread of the call, outside of",
        ),
    ],
)
def test_errors(mode: str, message: str) -> None:
    one = session("float", f'<mode = "{mode}">')
    for _ in range(2):
        with pytest.raises(opgraft.Error) as failure:
            one.run(None, {"x": X})
        assert "node 'the_node', operator test.contrib_cuda::Scale: " in str(failure.value)
        assert message in str(failure.value)


def test_memory_outside_of_a_run() -> None:
    with pytest.raises(opgraft.Error, match="memory of the GPU is only available in a run"):
        session("float", '<mode = "allocator">')
