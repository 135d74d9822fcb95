"""Numbers that make an operator of ATen run without end: each is refused before libtorch is asked.

One process runs all of them, and is given up where one does not end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

pytest.importorskip("torch")

import opgraft
from opgraft._base._library import runner_path, runtime_library

DOUBLE = TensorProto.DOUBLE
MATRIX = np.array([[1.0, 2.0], [3.0, 4.0]])
ONE, NONE = np.array([1.0]), np.zeros(0)
HIGH = np.array([1e15])
DEEP = np.array([-1e15 + 0.5])
LONG = np.zeros((2**40, 0))
POLYNOMIALS = [
    *(f"special_chebyshev_polynomial_{kind}" for kind in "tuvw"),
    *(f"special_shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
    "special_legendre_polynomial_p",
    "special_laguerre_polynomial_l",
]
Case = tuple[str, str, list[np.ndarray], int]  # operator, arguments, inputs, tensors that come out
ENDLESS: list[Case] = [
    ("matrix_power", "(%0, -9223372036854775808)", [MATRIX], 1),
    ("linalg_matrix_power", "(%0, int(%1))", [MATRIX, np.array(-(2**63))], 1),
    ("special_zeta", "(%0, %1)", [2 * ONE, DEEP], 1),
    ("special_zeta.other_scalar", "(%0, -1000000000000000.5)", [2 * ONE], 1),
    ("special_zeta", "(%0, %1)", [np.full(10**4, 2.0), np.array(-4e6 + 0.5)], 1),
    ("polygamma", "(2, %0)", [DEEP], 1),
    ("special_polygamma", "(3, %0)", [DEEP], 1),
    *((name, "(%0, %1)", [ONE * 1e-300, HIGH], 1) for name in POLYNOMIALS),
    ("special_legendre_polynomial_p.n_scalar", "(%0, 1000000000000000)", [ONE / 2], 1),
    ("special_legendre_polynomial_p", "(%0, %1)", [np.full(10**6, 0.5), np.array(10**6)], 1),
    ("combinations", "(%0, 2000, true)", [ONE], 1),
    ("combinations", "(%0, 100000000, true)", [NONE], 1),
    ("mvlgamma", "(%0, 100000000)", [HIGH * 1e4], 1),
    ("meshgrid", f"([{', '.join(['%0'] * 20000)}])", [ONE], 20000),
    ("cartesian_prod", f"([{', '.join(['%0'] * 20000)}])", [ONE], 1),
    ("linalg_multi_dot", f"([{', '.join(['%0'] * 20000)}])", [ONE[None]], 1),
    ("chain_matmul", f"([{', '.join(['%0'] * 20000)}])", [ONE[None]], 1),
    ("repeat", f"(%0, [{', '.join(['1'] * 100000)}])", [NONE], 1),
    ("tile", "(%0, ints(%1))", [NONE, np.ones(100000, np.int64)], 1),
    ("diff", "(%0, 1000000000)", [LONG], 1),
    ("diff", "(%0, 1000000)", [np.zeros(10**6)], 1),
    ("chunk", "(%0, 100000000)", [NONE], 2),
    ("unsafe_chunk", "(%0, 1000000)", [np.zeros(10**6)], 2),
    ("tensor_split.sections", "(%0, 100000000)", [ONE], 2),
    ("tensor_split.tensor_indices_or_sections", "(%0, %1)", [ONE, np.array(10**8)], 2),
    ("hsplit.int", "(%0, 100000000)", [NONE], 2),
    ("vsplit.int", "(%0, 100000000)", [np.zeros((0, 2))], 2),
    ("unbind.int", "(%0)", [LONG], 2),
    ("unbind.int", "(%0)", [np.zeros(10**6)], 2),
    ("split.Tensor", "(%0, 1)", [LONG], 2),
    ("split.Tensor", "(%0, 1, -1)", [np.zeros(10**6)], 2),
    ("max_pool2d", "(%0, 1073741824, 1, 536870912)", [np.zeros((1, 1, 9, 9))], 1),
    ("max_pool3d", "(%0, 1048576, 1, [9, 9, 524288])", [np.zeros((1, 1, 3, 3, 3))], 1),
    ("lstm.input", "(%0, [%1, %1], [%2, %2], false, 1, 0.0, false, false, false)",
     [np.zeros((2**31, 0, 1)), np.zeros((1, 0, 1)), np.zeros((4, 1))], 3),
    ("linalg_det", "(%0)", [np.zeros((2**40, 0, 0))], 1),
]  # fmt: skip


def model_of(case: Case) -> onnx.ModelProto:
    name, arguments, inputs, count = case
    name, _, overload = name.partition(".")
    lists = {"meshgrid", "chunk", "unsafe_chunk", "tensor_split", "hsplit", "vsplit", "unbind"}
    results = ", ".join(["float64[...]"] * count)
    node = helper.make_node(
        "ATen",
        [f"x{i}" for i in range(len(inputs))],
        [f"y{i}" for i in range(count)],
        name="it",
        domain="org.pytorch.aten",
        operator=f"aten::{name}",
        overload_name=overload,
        arguments=arguments,
        results=f"[{results}]" if name in lists | {"split"} else results,
        encoding=1,
    )
    values = [
        helper.make_tensor_value_info(
            f"x{i}", helper.np_dtype_to_tensor_dtype(one.dtype), [None] * one.ndim
        )
        for i, one in enumerate(inputs)
    ]
    outputs = [helper.make_tensor_value_info("y0", DOUBLE, None)]
    graph = helper.make_graph([node], "aten", values, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def run(case: Case, make: Any) -> str:
    """What is said of a call."""
    try:
        session = make(model_of(case))
        session.run(None, {f"x{i}": one for i, one in enumerate(case[2])})
        return "it has run"
    except Exception as error:
        return str(error)


def plain(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(opgraft.library_path())
    return onnxruntime.InferenceSession(opgraft.prepare(model).bytes, options)


def main() -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for place, case in enumerate(ENDLESS):
        print(place, flush=True)
        print(repr(run(case, lambda model: opgraft.InferenceSession(model, options))), flush=True)
        print(repr(run(case, plain)), flush=True)


def test_nothing_runs_without_end() -> None:
    process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
    try:
        said = process.communicate(timeout=120)[0].splitlines()
    except subprocess.TimeoutExpired:
        process.kill()
        said = process.communicate()[0].splitlines()
        case = ENDLESS[int(next(one for one in reversed(said) if one.isdigit()))]
        pytest.fail(f"it does not end: {case[0]}{case[1][:80]}")
    assert process.returncode == 0
    for place, case in enumerate(ENDLESS):
        for text in said[3 * place + 1 : 3 * place + 3]:
            assert "node 'it', operator aten::" in text, (case, text)
            assert "expected" in text or "it returns a list of" in text, (case, text)


def test_in_a_cpp_program(tmp_path: Path) -> None:
    onnx.save(model_of(ENDLESS[0]), tmp_path / "model.onnx")
    np.save(tmp_path / "x0.npy", MATRIX)
    command = [runner_path(), "--onnxruntime", runtime_library()]
    command += ["--input", f"x0={tmp_path}/x0.npy", str(tmp_path / "model.onnx")]
    environment = dict(os.environ, OPGRAFT_PYTHON=sys.executable)
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "expected n between -2^31 and 2^31, got -9223372036854775808" in done.stderr


if __name__ == "__main__":
    main()
