"""ATen nodes against eager torch: arguments and results of every kind."""

from __future__ import annotations

import math
import resource
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import opgraft

torch = pytest.importorskip("torch", reason="ATen nodes need torch")

from aten_models import Case, is_carried, model_of, of_call, to_numpy  # noqa: E402
from pack_building import MORE  # noqa: E402

from opgraft.torch._rungs._aten import Input, Output, aten_node  # noqa: E402

A = torch.ops.aten
torch.manual_seed(0)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """libtorch's threads and ONNX Runtime's would hold each other up."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def x(*shape: int, dtype: Any = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype)


def positive(size: int) -> torch.Tensor:
    matrix = x(size, size)
    return matrix @ matrix.T + size * torch.eye(size)


def run(case: Case, **how: Any) -> list[np.ndarray]:
    return opgraft.InferenceSession(case.model, **how).run(None, case.feed)  # type: ignore[no-any-return]


def check(case: Case, **how: Any) -> None:
    got = run(case, **how)
    assert len(got) == len(case.expected)
    for one, expected in zip(got, case.expected, strict=True):
        assert (one.dtype, one.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-5)


CALLS: dict[str, tuple[Any, ...]] = {
    # one tensor
    "linalg_inv": (A.linalg_inv.default, [positive(3)]),
    "lgamma": (A.lgamma.default, [x(4, 5)]),
    "scalar tensor": (A.digamma.default, [torch.tensor(2.5)]),
    "empty": (A.lgamma.default, [x(0, 3)]),
    "float64": (A.special_bessel_j0.default, [x(3, dtype=torch.float64)]),
    "float16": (A.neg.default, [x(3).half()]),
    "int64": (A.bitwise_not.default, [torch.tensor([1, -7])]),
    "bool": (A.logical_not.default, [torch.tensor([True, False])]),
    "uint8": (A.flip.default, [torch.tensor([1, 2, 255], dtype=torch.uint8), [0]]),
    "a number for numbers": (A.isin.Tensor_Scalar, [torch.tensor([1, 2, 3]), 2]),
    # several results
    "linalg_svd": (A.linalg_svd.default, [x(4, 3), False]),
    "eigh": (A.linalg_eigh.default, [positive(4)]),
    "median.dim": (A.median.dim, [x(3, 5), 1]),
    "kthvalue": (A.kthvalue.default, [x(3, 5), 2, 0, True]),
    "lu": (A.linalg_lu.default, [x(3, 3)]),
    "frexp": (A.frexp.Tensor, [x(5)]),
    # int, float, bool, lists, text, dtype
    "cumprod": (A.cumprod.default, [x(2, 3), 1], {"dtype": torch.float64}),
    "polygamma": (A.polygamma.default, [2, x(3).abs()]),
    "renamed keyword": (A.searchsorted.Tensor, [x(5).sort().values, x(3)], {"right": True}),
    "side": (A.searchsorted.Tensor, [x(5).sort().values, x(3)], {"side": "right"}),
    "nuc": (A.linalg_norm.ord_str, [x(3, 3), "nuc"]),
    "roll": (A.roll.default, [x(3, 4), [1, -2], [0, 1]]),
    "bicubic": (A.upsample_bicubic2d.vec, [x(1, 2, 4, 4), None, True, [2.0, 1.5]]),
    "avg_pool2d": (A.avg_pool2d.default, [x(1, 2, 6, 6), [2, 2], [2, 2], [0, 0], True, True, 3]),
    "one int for two": (A.adaptive_max_pool2d.default, [x(1, 2, 6, 6), 3]),
    "mode": (A.gelu.default, [x(4)], {"approximate": "tanh"}),
    "memory_format": (A.clone.default, [x(1, 2, 3, 4)], {"memory_format": torch.channels_last}),
    "zeros": (A.zeros.default, [[2, 3]], {"dtype": torch.int32, "device": torch.device("cpu")}),
    "layout": (A.ones.default, [[2]], {"dtype": torch.float32, "layout": torch.strided}),
    "quantile": (A.quantile.scalar, [x(7), 0.3], {"interpolation": "midpoint"}),
    "nan": (A.nan_to_num.default, [torch.tensor([math.nan, 1.0, math.inf]), math.inf, 0.0, -0.0]),
    # lists of tensors, of optional tensors, absent tensors
    "cat": (A.cat.default, [[x(2, 3), x(1, 3)], 0]),
    "block_diag": (A.block_diag.default, [[x(2, 2), x(1, 3)]]),
    "index": (A.index.Tensor, [x(3, 4), [None, torch.tensor([2, 0])]]),
    "index_put": (A.index_put.default, [x(4), [torch.tensor([0, 2])], x(2), True]),
    "split": (A.split.Tensor, [x(5, 2), 2, 0]),
    "tensor_split": (A.tensor_split.indices, [x(5), [1, 3]]),
    "nll_loss": (A.nll_loss.default, [x(3, 4), torch.tensor([0, 3, 1]), None, 2]),
    "batch_norm": (
        A.native_batch_norm.default,
        [x(2, 3, 4), None, None, None, None, True, 0.1, 1e-5],
    ),
    # complex
    "fft": (A.fft_fft.default, [x(4)]),
    "ifft": (A.fft_ifft.default, [x(4, dtype=torch.complex64)]),
    "eig": (A.linalg_eig.default, [x(3, 3)]),
    "conj": (A.conj.default, [x(3, dtype=torch.complex64)]),
    "adjoint": (A.adjoint.default, [x(2, 3, dtype=torch.complex128)]),
    "imag": (A.imag.default, [x(3, dtype=torch.complex64)]),
    "complex scalar": (A._conj.default, [torch.tensor(1 + 2j)]),
    # Scalars
    "remainder": (A.remainder.Scalar, [x(5), 0.3]),
    "of ints": (A.remainder.Scalar, [torch.tensor([5, -7]), 3]),
    "float for ints": (A.remainder.Scalar, [torch.tensor([5, -7]), 0.3]),
    "of float64": (A.eq.Scalar, [torch.tensor([0.1], dtype=torch.float64), 0.1]),
    "of float32": (A.eq.Scalar, [torch.tensor([0.1]), 0.1]),
    "of float16": (A.fmod.Scalar, [x(3).half(), 0.3]),
    "clamp": (A.clamp.default, [x(5), None, 0.5]),
    "power": (A.pow.Tensor_Scalar, [torch.tensor([2, 3]), 3]),
    "masked_fill": (A.masked_fill.Scalar, [x(3), torch.tensor([True, False, True]), -math.inf]),
    "where": (A.where.ScalarSelf, [torch.tensor([True, False]), 0.1, x(2, dtype=torch.float64)]),
    "histc": (A.histc.default, [x(50), 5, -1, 1]),
    "pad": (A.constant_pad_nd.default, [x(2, 3), [1, 2], 7.5]),
    "alpha": (A.add.Tensor, [x(3), x(3)], {"alpha": 2}),
    "segments": (
        A.segment_reduce.default,
        [x(5), "sum"],
        {"lengths": torch.tensor([2, 3]), "axis": 0, "initial": 1.0},
    ),
    "no initial": (A.segment_reduce.default, [x(5), "max"], {"lengths": torch.tensor([2, 3])}),
    "zeta": (A.special_zeta.self_scalar, [2.5, x(3).abs() + 1]),
    "linspace": (A.linspace.default, [0.1, 1, 5], {"dtype": torch.float64}),
    # views, strides, lazy bits, layouts, numbers
    "transpose": (A.transpose.int, [x(3, 5), 0, 1]),
    "large transpose": (A.transpose.int, [x(300, 70), 0, 1]),
    "expand": (A.expand.default, [x(3, 1), [3, 4]]),
    "negative bit": (A._neg_view.default, [x(3, 3)]),
    "sparse": (A.to_sparse.default, [torch.tensor([[0.0, 1.0], [2.0, 0.0]])]),
    "equal": (A.equal.default, [torch.ones(2), torch.ones(2)]),
    "the same twice": (A.maximum.default, [CALLED := x(3), CALLED]),
}


@pytest.mark.parametrize("name", CALLS)
def test_as_eager(name: str) -> None:
    check(of_call(*CALLS[name]))


def test_numbers_that_are_inputs() -> None:
    """SymInts arrive as tensors."""
    case = of_call(A.split.Tensor, [x(5, 2), 2, 0], numbers=[1, 2])
    assert len(case.feed) == 3
    check(case)
    check(of_call(A.roll.default, [x(3, 4), [1, 2], [0, 1]], numbers=[1]))
    check(of_call(A.quantile.scalar, [x(7), 0.3], {}, numbers=[1]))
    check(of_call(A.linalg_svd.default, [x(4, 3), False], numbers=[1]))


def test_a_list_in_one_input() -> None:
    node = aten_node(A.tile.default, [Input("x0"), [2, 3]], {}, Output("float32"))
    node.attributes["arguments"] = "(%0, ints(%1))"
    node.inputs.append("x1")
    feed = {"x0": to_numpy(x(2)), "x1": np.array([2, 3])}
    (got,) = opgraft.InferenceSession(model_of(node, feed)).run(None, feed)
    np.testing.assert_array_equal(got, np.tile(feed["x0"], (2, 3)))


def test_a_graph_that_says_nothing_of_types() -> None:
    """Of a value between two nodes the ATen node alone tells the type."""
    case = of_call(A.median.dim, [x(3, 5), 1])
    graph = case.model.graph
    graph.node.append(helper.make_node("Neg", ["y0"], ["z"]))
    graph.output.append(helper.make_tensor_value_info("z", 1, None))
    del graph.output[:2]
    (got,) = run(case)
    np.testing.assert_allclose(got, -case.expected[0])


def test_unwanted_outputs() -> None:
    for unwanted in (0, 1, 2):
        case = of_call(A.linalg_svd.default, [x(4, 3), False])
        case.model.graph.node[0].output[unwanted] = ""
        del case.model.graph.output[unwanted]
        del case.expected[unwanted]
        check(case)


def test_a_dropped_result() -> None:
    case = of_call(A.median.dim, [x(3, 5), 1], results=(Output("float32"), None))
    (got,) = run(case)
    np.testing.assert_allclose(
        got, case.feed["x0"][np.arange(3), np.argsort(case.feed["x0"])[:, 2]]
    )


def test_uninitialized_memory_is_not_seen() -> None:
    for overload, args in (
        (A.empty.memory_format, [[64, 64]]),
        (A.new_empty.default, [x(2), [1000]]),
        (A.empty_permuted.default, [[3, 4], [1, 0]]),
    ):
        case = of_call(overload, args)
        (got,) = run(case)
        assert got.shape == case.expected[0].shape
        assert not got.any()
    case = of_call(A.resize.default, [x(2, 3), [4, 5]])
    (got,) = run(case)
    np.testing.assert_array_equal(got.reshape(-1)[:6], case.feed["x0"].reshape(-1))
    assert not got.reshape(-1)[6:].any()


def test_random_operators_follow_the_seed() -> None:
    session = opgraft.InferenceSession(of_call(A.randn.default, [[4]]).model)
    torch.manual_seed(7)
    first, second = session.run(None, {})[0], session.run(None, {})[0]
    torch.manual_seed(7)
    np.testing.assert_array_equal(first, torch.randn(4).numpy())
    assert not np.array_equal(first, second)


def test_statistics_of_batch_norm_stay_as_they_are() -> None:
    """In training mode it writes to them, though its schema does not say so."""
    mean, variance = torch.zeros(3), torch.ones(3)
    args = [x(2, 3, 4), None, None, mean.clone(), variance.clone(), True, 0.1, 1e-5]
    case = of_call(A.native_batch_norm.default, args)
    case.feed["x1"], case.feed["x2"] = mean.numpy(), variance.numpy()
    check(case)
    assert not case.feed["x1"].any()
    assert (case.feed["x2"] == 1).all()


def test_gradients_stay_switched_on() -> None:
    check(of_call(A.lgamma.default, [x(3)]))
    assert torch.is_grad_enabled()


def test_eight_threads() -> None:
    case = of_call(A.linalg_svd.default, [x(16, 16)])
    options = onnxruntime.SessionOptions()
    # Memory that goes from run to run in the arena changes hands unseen by the thread sanitizer.
    options.enable_cpu_mem_arena = "-fsanitize=thread" not in MORE
    session = opgraft.InferenceSession(case.model, options)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(100):
                matrix = np.random.default_rng().standard_normal((16, 16), np.float32)
                u, s, vh = session.run(None, {"x0": matrix})
                np.testing.assert_allclose((u * s) @ vh, matrix, atol=1e-4)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_memory_does_not_grow() -> None:
    """Handles that are lost would hold on to 100 kB in each run: 200 MB, or 20 where it fails."""
    split = of_call(A.split.Tensor, [x(100, 256), 50, 0])
    norm = of_call(A.linalg_norm.ord_str, [x(8, 8), "nuc"])
    fft = of_call(A.fft_fft.default, [x(100, 128)])
    wrong = of_call(A.cat.default, [[x(100, 256), x(3, 2)], 0], results=Output("float32"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # threads that wait in turns hold up a small machine
    cases = (split, norm, fft)
    sessions = [(opgraft.InferenceSession(one.model, options), one.feed) for one in cases]
    failing = opgraft.InferenceSession(wrong.model, options)

    def call(times: int) -> int:
        for i in range(times):
            for session, feed in sessions:
                session.run(None, feed)
            if i % 20 == 0:  # an error takes libtorch long
                with pytest.raises(opgraft.Error):
                    failing.run(None, wrong.feed)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = call(50)
    assert call(2000) - before < 15_000  # kB


def test_inputs_are_views() -> None:
    """40 MB go in, and no copy of them is made: as_strided gives a single number out."""
    case = of_call(A.select.int, [x(10_000_000), 0, 5])
    session = opgraft.InferenceSession(case.model)
    binding = session.io_binding()
    binding.bind_cpu_input("x0", case.feed["x0"])
    binding.bind_output("y0")
    session.run_with_iobinding(binding)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        session.run_with_iobinding(binding)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], case.expected[0])


def test_every_type_that_both_have() -> None:
    for dtype in "uint8 int8 int16 int32 int64 bool float16 float32 float64 uint16 uint32".split():
        tensor = torch.tensor([[0, 1], [1, 0]]).to(getattr(torch, dtype))
        assert is_carried(tensor)
        check(of_call(A.clone.default, [tensor]))


def test_the_reports_of_preparing() -> None:
    prepared = opgraft.prepare(of_call(A.median.dim, [x(3, 5), 1]).model)
    assert prepared.aten == {"aten::median.dim": True}
    model = onnx.load_from_string(prepared.bytes)
    assert {(one.domain, one.version) for one in model.opset_import} == {
        ("", 21),
        ("org.pytorch.aten", 1),
    }
    prepared = opgraft.prepare(of_call(A.sigmoid_backward.default, [x(3), x(3)]).model)
    assert prepared.aten == {"aten::sigmoid_backward": False}
