"""`@opgraft.op(..., device="cuda")` where there is no GPU: what can be declared, and what is said
wherever it cannot run."""

from __future__ import annotations

import contextlib
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx.reference
import pytest
from fake_models import model

import opgraft
from opgraft._cuda import _gpu_arrays
from opgraft._declare import _declare
from opgraft._declare._signature import ELEMENT_TYPES, GPU_TYPES

torch = pytest.importorskip("torch", reason="annotations with torch.Tensor need torch")

T = TypeVar("T", np.float32, np.float16)
Half = Annotated[torch.Tensor, torch.float16]


def declare(function: Callable[..., Any], **named: Any) -> _declare.Operator:
    opgraft.op("my::Declared", device="cuda", **named)(function)
    return _declare.find("my::Declared")


def names(operator: _declare.Operator) -> list[list[str]]:
    """The element types of each input and output."""
    by_number = {number: name for name, number in ELEMENT_TYPES.items()}
    signature = operator.schema
    return [
        ["any"]
        if (found := signature.types[one.type].allowed) == GPU_TYPES
        else [by_number[n] for n in found]
        for one in (*signature.inputs, *signature.outputs)
    ]


def test_annotations_of_torch() -> None:
    def several(
        x: torch.Tensor, h: Half, b: Annotated[torch.Tensor, np.bool_] | None = None
    ) -> tuple[torch.Tensor, Annotated[torch.Tensor, torch.bfloat16], npt.NDArray[np.int64]]:
        raise NotImplementedError

    operator = declare(several)
    assert names(operator) == [["any"], ["float16"], ["bool"], ["any"], ["bfloat16"], ["int64"]]
    assert operator.arrays == "torch"
    # The output has the type of the first input.
    signature = operator.schema
    assert signature.outputs[0].type == signature.inputs[0].type


def test_types_that_are_tied() -> None:
    def tied(
        x: Annotated[torch.Tensor, T], *ys: Annotated[torch.Tensor, "more", T], scale: float = 1.0
    ) -> Annotated[torch.Tensor, T]:
        raise NotImplementedError

    operator = declare(tied)
    assert names(operator) == [["float32", "float16"]] * 3
    assert len({one.type for one in (*operator.schema.inputs, *operator.schema.outputs)}) == 1
    assert [one.name for one in operator.schema.attributes] == ["scale"]


def test_annotations_of_numpy() -> None:
    def plain(x: npt.NDArray[np.floating], y: Any) -> npt.NDArray[np.float32]:
        raise NotImplementedError

    assert declare(plain).arrays == "torch"
    operator = declare(plain, arrays="cupy")
    assert operator.arrays == "cupy"
    assert names(operator) == [["float32", "float16", "float64"], ["any"], ["float32"]]


def test_a_class_and_an_attribute_with_a_note() -> None:
    @opgraft.op("my::Declared", device="cuda")
    class Scale:
        def __init__(self, *, factor: Annotated[float, "by which"] = 2.0) -> None: ...

        def compute(self, x: Half) -> Half:
            raise NotImplementedError

    operator = _declare.find("my::Declared")
    assert names(operator) == [["float16"], ["float16"]]
    assert operator.schema.attributes[0].default == 2.0


class FakeArray:
    """In place of cupy.ndarray."""


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    import sys

    module = types.ModuleType("cupy")
    module.ndarray = FakeArray  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_annotations_of_cupy(cupy: Any) -> None:
    def of_cupy(x: FakeArray, y: Annotated[FakeArray, np.float32]) -> FakeArray:
        raise NotImplementedError

    operator = declare(of_cupy)
    assert operator.arrays == "cupy"
    assert names(operator) == [["any"], ["float32"], ["any"]]


def both(x: torch.Tensor, y: FakeArray) -> torch.Tensor:
    raise NotImplementedError


def texts(x: npt.NDArray[np.str_]) -> Half:
    raise NotImplementedError


def complex_ones(x: Annotated[torch.Tensor, torch.complex64]) -> torch.Tensor:
    raise NotImplementedError


def half(x: Half) -> Half:
    return x


@pytest.mark.parametrize(
    ("function", "named", "message"),
    [
        (both, {}, "my::Wrong cannot be declared: it mixes arrays of torch and of cupy"),
        (texts, {}, "input 'x' is an array of string, which GPUs do not support"),
        (complex_ones, {}, "input 'x' is an array of torch.complex64, which GPUs do not support"),
        (half, {"arrays": "cupy"}, "arrays='cupy', but its annotations name torch"),
        (half, {"arrays": "jax"}, "expected arrays to be 'torch' or 'cupy', not 'jax'"),
        (half, {"device": "gpu"}, "expected device to be 'cpu' or 'cuda', not 'gpu'"),
        (half, {"device": "cpu"}, 'is annotated as .*Tensor.*, or device="cuda" for arrays on a'),
        (
            half,
            {"device": "cpu", "arrays": "torch"},
            "arrays='torch' is for operators on a GPU, device=\"cuda\"",
        ),
    ],
)
def test_what_cannot_be_declared(
    cupy: Any, function: Callable[..., Any], named: dict[str, Any], message: str
) -> None:
    with pytest.raises(opgraft.Error, match=message):
        opgraft.op("my::Wrong", **{"device": "cuda", **named})(function)


def test_nothing_of_4_bits() -> None:
    def of_nibbles(x: npt.NDArray[ml_dtypes.int4]) -> Half:
        raise NotImplementedError

    with pytest.raises(opgraft.Error, match="input 'x' is an array of int4, which GPUs do not"):
        declare(of_nibbles)


def test_in_onnx() -> None:
    """onnx knows its types and shapes, and cannot run it."""
    opgraft.op("my::Seen", device="cuda", shape=lambda x: x)(half)
    given = model("y = my.Seen(x)", "float16[n, 3] x", "float16[n, 3] y")
    onnx.checker.check_model(given, full_check=True)
    wrong = model("y = my.Seen(x)", "string[n, 3] x", "string[n, 3] y")
    with pytest.raises(opgraft.ModelError, match="input 0, 'x', is string, expected float16"):
        opgraft.prepare(wrong)
    with pytest.raises(opgraft.Error, match="my::Seen runs on a GPU .*not on NumPy arrays"):
        onnx.reference.ReferenceEvaluator(given).run(None, {"x": np.zeros((2, 3), np.float16)})


def test_strings_of_an_operator_that_takes_any_type() -> None:
    def any_type(x: torch.Tensor) -> torch.Tensor:
        return x

    declare(any_type)
    with pytest.raises(
        opgraft.ModelError, match="input 0, 'x', is string, expected one of float32, "
    ):
        opgraft.prepare(model("y = my.Declared(x)", "string[n] x", "string[n] y"))


def test_the_streams_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of torch, here of a stand-in for its streams."""
    calls: list[Any] = []
    cuda = types.SimpleNamespace(
        is_available=lambda: True,
        init=lambda: None,
        current_stream=lambda gpu: types.SimpleNamespace(cuda_stream=5, gpu=gpu),
        set_stream=calls.append,
        ExternalStream=lambda address, device: ("external", address, device),
        default_stream=lambda gpu: ("default", gpu),
    )
    monkeypatch.setattr(torch, "cuda", cuda)
    library = _gpu_arrays.LIBRARIES["torch"](1)
    assert library.current_stream() == 5
    for address, stream in ((7, ("external", 7, 1)), (0, ("default", 1)), (7, ("external", 7, 1))):
        calls.clear()
        with contextlib.suppress(ValueError), library.on_stream(address):
            raise ValueError
        assert calls[0] == stream
        assert calls[1].cuda_stream == 5 and calls[1].gpu == 1 and len(calls) == 2
    x = torch.arange(6.0).reshape(2, 3)
    assert library.describe(x.T) == "a float32 tensor of shape (3, 2) on cpu"
    assert "of layout torch.sparse_coo" in library.describe(x.to_sparse())
    assert library.is_plain(x) and library.is_plain(torch.nn.Parameter(x))
    assert not library.is_plain(torch.complex(x, x).conj().imag)
    target = torch.zeros(3, 2)
    library.assign(target, torch.nn.Parameter(x).T)
    assert torch.equal(target, x.T) and not target.requires_grad
    assert not library.copy(torch.nn.Parameter(x)).requires_grad


# In torch.


def test_torch_says_that_it_needs_a_gpu() -> None:
    import opgraft.torch

    opgraft.op("my::InTorch", device="cuda", shape=lambda x: x, backward=lambda gradient: gradient)(
        half
    )
    x = torch.ones(2, dtype=torch.float16)
    message = r"my::InTorch runs on GPUs alone .*input 0 is on the device cpu. Fix: x.cuda\(\)"
    for given in (x, x.clone().requires_grad_()):
        with pytest.raises(opgraft.Error, match=message):
            torch.ops.my.InTorch(given)
    with pytest.raises(opgraft.Error, match=message):
        opgraft.torch.export(torch.ops.my.InTorch, (x,))
    program = opgraft.torch.export(torch.ops.my.InTorch, (x,), verify=False)
    assert [one.op_type for one in program.model_proto.graph.node] == ["InTorch"]
    assert str(program.report).splitlines()[-1] == (
        "to run it: opgraft.InferenceSession(model, "
        f"providers=['OpgraftCUDA', 'CPUExecutionProvider'], allow={[__name__]})"
    )

    def chosen(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.ops.my.InTorch, torch.neg, (x,))

    report = opgraft.torch.export(chosen, (x,), verify=False).report
    assert report.providers and report.allow == [__name__]


def test_declared_again_for_the_other_device() -> None:
    import opgraft.torch

    def on_host(x: npt.NDArray[np.float16]) -> npt.NDArray[np.float16]:
        return x + np.float16(1)

    x = torch.ones(2, dtype=torch.float16)
    for _ in range(2):
        opgraft.op("my::Again", device="cuda")(half)
        with pytest.raises(opgraft.Error, match="my::Again runs on GPUs alone"):
            torch.ops.my.Again(x)
        opgraft.op("my::Again")(on_host)
        assert torch.equal(torch.ops.my.Again(x), x + 1)


def test_the_guide() -> None:
    """The declarations of docs/declaring.md."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "declaring.md").read_text()
    declarations, *_ = re.findall(r"```py\n(.*?)```", page, re.S)
    exec(declarations, {"opgraft": opgraft, "__name__": "guide"})
    assert names(_declare.find("mylibrary::Swish")) == [["any"], ["any"]]
    assert names(_declare.find("mylibrary::Mask")) == [["bfloat16"], ["bool"]]
