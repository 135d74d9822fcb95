"""Python operators on the GPU that go wrong, and models that are refused: on the fake GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_gpu
import numpy as np
import onnx
import onnxruntime
import pytest
from fake_gpu import PROVIDERS, needs_plugins
from fake_models import model, session

import opgraft
from conftest import VERSION, Write

pytestmark = needs_plugins
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def stand_in() -> Any:
    fake_gpu.start()
    import stand_in

    return stand_in


@pytest.fixture(params=["stand_in", "fast_stand_in"])
def op(request: pytest.FixtureRequest, stand_in: Any) -> Callable[..., Any]:
    def declare(name: str, **named: Any) -> Any:
        return opgraft.op(name, device="cuda", arrays=request.param, **named)

    return declare


def fails(one: opgraft.InferenceSession, message: str) -> None:
    with pytest.raises(opgraft.PyOpError, match=f"(?s)^node '.*', operator my::.*{message}"):
        one.run(None, {"x": X})


def elsewhere(stand_in: Any, x: Any, device: tuple[int, int]) -> Any:
    array = stand_in.Array(x.data, x.shape, x.dtype, x.owner)
    array.device = device
    return array


HERE = r"expected a stand_in.Array of float32 on GPU 0, but the operator returned "
WRONG: list[tuple[Callable[[Any, Any], Any], str]] = [
    (
        lambda stand_in, x: elsewhere(stand_in, x, (1, 0)),
        HERE + r"a float32 Array of shape \(2, 3\) on \(1, 0\). Fix: move it",
    ),
    (lambda stand_in, x: elsewhere(stand_in, x, (2, 1)), HERE + ".*move it"),
    (
        lambda stand_in, x: stand_in.empty(x.shape, np.float64),
        HERE + r"a float64 Array.*Fix: return value.to\(float32\), or annotate the output",
    ),
    (
        lambda stand_in, x: stand_in.empty((4,), np.float32),
        r"expected an array of shape \(.*\), as the model declares, but the operator returned a "
        r"float32 Array of shape \(4,\)",
    ),
    (
        lambda stand_in, x: np.zeros(x.shape, np.float32),
        HERE + r"a float32 array of shape \(2, 3\) of NumPy's. Fix: return a stand_in.Array",
    ),
    (lambda stand_in, x: 1.5, HERE + "a float. Fix: return a stand_in.Array of float32"),
    (lambda stand_in, x: None, HERE + "None. Fix: give every path"),
    (lambda stand_in, x: (x, x), "expected the operator to return one array, .* a tuple of length"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_wrong_results(
    op: Callable[..., Any], stand_in: Any, make: Callable[[Any, Any], Any], message: str
) -> None:
    is_wrong = True

    @op("my::Wrong")
    def wrong(x: np.ndarray) -> np.ndarray:
        return make(stand_in, x) if is_wrong else x

    one = session("y = my.Wrong(x)")
    fails(one, message)
    is_wrong = False
    np.testing.assert_array_equal(one.run(None, {"x": X})[0], X)


@pytest.mark.parametrize(("make", "message"), [WRONG[0], WRONG[2], WRONG[3], WRONG[4], WRONG[5]])
def test_wrong_results_beside_out(
    op: Callable[..., Any], stand_in: Any, make: Callable[[Any, Any], Any], message: str
) -> None:
    @op("my::Wrong", shape=lambda x: x)
    def wrong(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        return make(stand_in, x)

    fails(
        session("y = my.Wrong(x)"),
        r"output 0: expected None, 'out', or a float32 Array of shape \(2, 3\) on \(2, 0\), but "
        "the operator returned ",
    )


def test_a_shape_that_the_rule_does_not_say(op: Callable[..., Any], stand_in: Any) -> None:
    @op("my::Short", shape=lambda x: (x[0] + 1, x[1]))
    def short(x: np.ndarray) -> np.ndarray:
        return x

    fails(
        session("y = my.Short(x)", "float[n, m] x", "float[k, m] y"),
        r"expected an array of shape \(3, 3\), as its shape rule says, .* of shape \(2, 3\)",
    )


def test_an_exception(op: Callable[..., Any]) -> None:
    is_wrong = True

    @op("my::Raises")
    def raises(x: np.ndarray) -> np.ndarray:
        if is_wrong:
            raise ValueError("a reason")
        return x

    one = session("y = my.Raises(x)")
    with pytest.raises(opgraft.PyOpError, match="raised ValueError: a reason") as raised:
        one.run(None, {"x": X})
    assert isinstance(raised.value.__cause__, ValueError)
    is_wrong = False
    np.testing.assert_array_equal(one.run(None, {"x": X})[0], X)


@pytest.mark.parametrize("what", ["input", "view", "out"])
def test_arrays_that_are_kept(op: Callable[..., Any], stand_in: Any, what: str) -> None:
    kept: list[Any] = []

    @op("my::Keeps", shape=lambda x: x)
    def keeps(x: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        stand_in.launch(np.copyto, out, x)
        kept.append({"input": x, "view": x[0], "out": out}[what])
        return out

    one = session("y = my.Keeps(x)")
    fails(one, r"kept an input or 'out', or a view of one, after the call.*x.clone\(\)")
    fails(one, "not run, since an input or 'out' that an earlier call kept is still held")
    kept.clear()
    fails(one, "kept an input")
    kept.clear()
    kept = None  # type: ignore[assignment]
    with pytest.raises(opgraft.PyOpError, match="AttributeError") as raised:
        one.run(None, {"x": X})
    assert isinstance(raised.value.__cause__, AttributeError)


def test_copies_may_be_kept(op: Callable[..., Any], stand_in: Any) -> None:
    kept: list[Any] = []

    @op("my::Keeps", copy_inputs=True)
    def keeps(x: np.ndarray) -> np.ndarray:
        kept.append(x)
        return x

    one = session("y = my.Keeps(x)")
    for _ in range(2):
        np.testing.assert_array_equal(one.run(None, {"x": X})[0], X)
    for array in kept:
        np.testing.assert_array_equal(array.on_host(), X)


@pytest.mark.parametrize("change", ["data", "dtype", "shape"])
def test_out_that_is_changed(op: Callable[..., Any], stand_in: Any, change: str) -> None:
    @op("my::Changes", shape=lambda x: x)
    def changes(x: np.ndarray, *, out: Any) -> np.ndarray:
        values = {"data": x.data, "dtype": np.dtype(np.int32), "shape": (3, 2)}
        setattr(out, change, values[change])
        return out  # type: ignore[no-any-return]

    fails(session("y = my.Changes(x)"), "changed the memory, type or shape of 'out' for output 0")


def test_no_memory_is_left(op: Callable[..., Any], stand_in: Any) -> None:
    """The fake GPU has 256 MiB."""

    @op("my::Repeat", shape=lambda x, *, times: (times, *x))
    def repeat(x: np.ndarray, *, times: int, out: np.ndarray) -> np.ndarray:
        stand_in.launch(lambda x, y: np.copyto(y, x), x, out)
        return out

    large = session("y = my.Repeat<times = 20000000>(x)", "float[n, m] x", "float[k, n, m] y")
    with pytest.raises(opgraft.Error, match="my::Repeat: output 0, whose shape is .*no memory"):
        large.run(None, {"x": X})
    small = session("y = my.Repeat<times = 2>(x)", "float[n, m] x", "float[k, n, m] y")
    np.testing.assert_array_equal(small.run(None, {"x": X})[0], [X, X])


# Models that are refused.


@pytest.mark.parametrize(
    "providers", [None, ["CPUExecutionProvider"], ["CPUExecutionProvider", "OpgraftCUDA"]]
)
def test_a_session_without_the_provider(
    op: Callable[..., Any], stand_in: Any, providers: Any
) -> None:
    if providers and len(providers) > 1 and VERSION < (1, 26):
        pytest.skip("this ONNX Runtime is not told the order of the providers")

    @op("my::Only", shape=lambda x: x)
    def only(x: np.ndarray) -> np.ndarray:
        raise AssertionError("it must not run")

    with pytest.raises(
        opgraft.UnavailableError,
        match=r"node 'Only_y', operator my::Only: it runs on GPUs alone, and this session has "
        r"none. Fix: .*providers=\['OpgraftCUDA', 'CPUExecutionProvider'\].*--gpu 0",
    ):
        session("y = my.Only(x)", providers=providers)


def test_constants_are_not_folded(op: Callable[..., Any], stand_in: Any) -> None:
    """The runtime computes what it can on the CPU while it loads a model."""

    @op("my::Twice")
    def twice(x: np.ndarray) -> np.ndarray:
        y = stand_in.empty(x.shape, x.dtype)
        stand_in.launch(lambda x, y: np.add(x, x, out=y), x, y)
        return y

    one = session("c = Constant<value_floats = [1.0, 2.0, 3.0]>() d = my.Twice(c) y = Add(x, d)")
    np.testing.assert_array_equal(one.run(None, {"x": X})[0], X + np.float32([2, 4, 6]))


def declare(device: str, **named: Any) -> None:
    @opgraft.op("my::Moves", device=device, **named)
    def moves(x: np.ndarray) -> np.ndarray:
        return x


@pytest.mark.parametrize("first", ["cpu", "cuda"])
def test_a_model_that_was_prepared_for_another_device(stand_in: Any, first: str) -> None:
    """It must neither be run on host memory as if it were the GPU's, nor the other way round."""
    devices: dict[str, dict[str, str]] = {"cpu": {}, "cuda": {"arrays": "stand_in"}}
    second = "cuda" if first == "cpu" else "cpu"
    declare(first, **devices[first])
    prepared = opgraft.prepare(model("y = my.Moves(x)"))
    (node,) = onnx.load_from_string(prepared.bytes).graph.node
    is_first_on_gpu = first == "cuda"
    assert node.op_type == ("PyOpCudaLike" if is_first_on_gpu else "PyOpLike")
    assert {one.name: one.i for one in node.attribute}["format"] == (3 if is_first_on_gpu else 2)
    declare(second, **devices[second])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with pytest.raises(
        opgraft.ModelError,
        match=r"my::Moves: it is declared to run on .*, but the node was prepared for .*; prepare",
    ):
        opgraft.InferenceSession(prepared, options, providers=PROVIDERS)


ELSEWHERE = """
    import numpy as np
    import opgraft
    import stand_in

    @opgraft.op("my::Elsewhere", device="cuda", arrays="stand_in")
    def same(x: np.ndarray) -> np.ndarray:
        return x
"""
OPEN = """
import sys
import numpy as np
import opgraft
for allow in ([], [sys.argv[2]]):
    try:
        session = opgraft.InferenceSession(sys.argv[1], providers=sys.argv[3:], allow=allow)
        print(session.run(None, {"x": np.float32([[1, 2]])})[0].tolist())
    except opgraft.Error as error:
        print(type(error).__name__, error)
"""


def test_the_policy(stand_in: Any, write_module: Write, tmp_path: Path) -> None:
    name = write_module(ELSEWHERE)
    opgraft.prepare(model("y = my.Elsewhere(x)"), imports=[name]).save(tmp_path / "model.onnx")
    arguments = [str(tmp_path / "model.onnx"), name, *PROVIDERS]
    folders = [str(tmp_path), str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", OPEN, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    refused, result = done.stdout.splitlines()
    assert refused.startswith("PolicyError node 'Elsewhere_y', operator my::Elsewhere")
    assert result == "[[1.0, 2.0]]"


# Libraries that are not there.


def test_a_torch_that_sees_no_gpu(stand_in: Any) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this torch sees a GPU")

    @opgraft.op("my::Torch", device="cuda")
    def of_torch(x: np.ndarray) -> np.ndarray:
        return x

    with pytest.raises(
        opgraft.UnavailableError,
        match="operator my::Torch: its arrays need torch, but torch .* sees no GPU. Fix",
    ):
        session("y = my.Torch(x)")


def test_a_library_that_is_not_installed(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)

    @opgraft.op("my::CuPy", device="cuda", arrays="cupy")
    def of_cupy(x: np.ndarray) -> np.ndarray:
        return x

    with pytest.raises(
        opgraft.UnavailableError,
        match="operator my::CuPy: its arrays need cupy, which cannot be imported.*pip install",
    ):
        session("y = my.CuPy(x)")


def test_the_doctor_tries_it_on_the_gpu(stand_in: Any, write_module: Write, tmp_path: Path) -> None:
    name = write_module(ELSEWHERE)
    opgraft.prepare(model("y = my.Elsewhere(x)"), imports=[name]).save(tmp_path / "model.onnx")
    folders = os.pathsep.join([str(tmp_path), str(Path(__file__).parent), *sys.path])
    for gpus, status in (("1", 0), ("0", 1)):
        doctor = [sys.executable, "-m", "opgraft", "doctor", "--allow", name]
        done = subprocess.run(
            [*doctor, str(tmp_path / "model.onnx")],
            env={**os.environ, "PYTHONPATH": folders, "FAKE_CUDA_GPUS": gpus},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert ("it runs on GPUs alone" in done.stdout) == (status == 1)
    assert ", and OpgraftCUDA is not available: CUDA sees no GPU" in done.stdout
    assert "\n  Fix: run the model where CUDA sees a GPU" in done.stdout
