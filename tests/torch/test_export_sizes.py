"""Sizes that dynamic_shapes leaves open, but that the model fixes: they are said, and numbers."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

from torch.export import Dim  # noqa: E402

import opgraft.torch  # noqa: E402

X = torch.arange(12.0).reshape(4, 3)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def reshape(x):
    return x.reshape(4, 3) + 1


def branch(x):
    return x + 1 if x.shape[0] == 4 else x - 1


def shape_of(program: Any, name: str) -> list[Any]:
    (found,) = (one for one in program.model.graph.inputs if one.name == name)
    return [one if isinstance(one, int) else one.value for one in found.shape]


ASKED = {
    "Dim": (Dim("b"), "('b')"),
    "Dim with bounds": (Dim("b", min=2, max=8), "('b')"),
    "AUTO": (Dim.AUTO, "axis 0 is"),
    "DYNAMIC": (Dim.DYNAMIC, "axis 0 is"),
    "name": ("batch", "('batch')"),
}


@pytest.mark.parametrize("model", [reshape, branch])
@pytest.mark.parametrize("asked", ASKED)
def test_a_fixed_size_is_said(model: Any, asked: str) -> None:
    dim, name = ASKED[asked]
    with pytest.warns(UserWarning, match="that the model fixes") as caught:
        program = opgraft.torch.export(model, (X,), dynamic_shapes={"x": {0: dim}})
    (one,) = (one for one in caught if "that the model fixes" in str(one.message))
    message = str(one.message)
    assert one.filename == __file__
    assert "input 'x', axis 0" in message and name in message and "is always 4" in message
    line = "x.reshape(4, 3)" if model is reshape else "x.shape[0] == 4"
    assert f"{__file__}, line " in message and line in message and "Fix" in message
    (note,) = (one for one in program.report.specialised if "is always 4" in one)
    assert "input 'x', axis 0" in note and line in note and note in str(program.report)
    assert shape_of(program, "x") == [4, 3]
    assert program.report.captured == "non-strict"
    torch.testing.assert_close(program(X)[0], X + 1)


def test_others_stay_open() -> None:
    def model(others, x):
        return x.reshape(4, x.shape[1]).sum() + others["y"] * 2 + others["z"][0].sum()

    others = {"y": torch.ones(5), "z": [torch.ones(2, 2)]}
    shapes = ({"y": {0: "n"}, "z": [None]}, {0: "rows", 1: "columns"})
    with pytest.warns(UserWarning) as caught:
        program = opgraft.torch.export(model, (others, X), dynamic_shapes=shapes)
    (message,) = (str(one.message) for one in caught if "model fixes" in str(one.message))
    assert "axis 0 ('rows') is always 4" in message
    assert "columns" not in message and "('n')" not in message
    assert shape_of(program, "x") == [4, "columns"]
    assert shape_of(program, "others_y") == ["n"]
    assert any("columns=" in one and "n=" in one for one in program.report.verified)


def test_named_arguments_and_nested_lists() -> None:
    def model(x, *, pair):
        return x + pair[1].reshape(3)

    kwargs = {"pair": [torch.ones(2), torch.ones(3)]}
    shapes = {"x": {0: Dim.AUTO, 1: None}, "pair": [{0: Dim.AUTO}, {0: Dim.AUTO}]}
    with pytest.warns(UserWarning, match="input 'pair_1', axis 0 is always 3") as caught:
        program = opgraft.torch.export(model, (X,), kwargs=kwargs, dynamic_shapes=shapes)
    assert not any("'pair_0'" in str(one.message) for one in caught)
    assert [isinstance(one, str) for one in shape_of(program, "x")] == [True, False]


def test_a_program_that_was_captured_before() -> None:
    captured = torch.export.export(
        opgraft.torch._capture._capture.Called(reshape, 1), (X,), dynamic_shapes=({0: Dim.AUTO},)
    )
    with pytest.warns(UserWarning, match=r"axis 0 \('batch'\) is always 4"):
        program = opgraft.torch.export(captured, dynamic_shapes=({0: "batch"},))
    assert shape_of(program, "x") == [4, 3]


def test_open_sizes_are_not_warned_of() -> None:
    for dim in (Dim("b"), Dim.AUTO, Dim.DYNAMIC, "b"):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            program = opgraft.torch.export(torch.relu, (X,), dynamic_shapes=({0: dim},))
        assert not program.report.specialised
        assert not isinstance(program.model.graph.inputs[0].shape[0], int)
    program = opgraft.torch.export(reshape, (X,), dynamic_shapes=({0: Dim.STATIC, 1: 3},))
    assert not program.report.specialised


@pytest.mark.parametrize("dim", [Dim("b"), Dim("b", max=9), Dim.AUTO, "b"], ids=str)
def test_bounds_that_nobody_asked_for_are_reported(dim: Any) -> None:
    """torch takes the branch of the example, and holds nobody to it in ONNX."""

    def model(x):
        return x + 1 if x.shape[0] <= 5 and x.shape[0] > 2 else x - 1

    program = opgraft.torch.export(model, (X,), dynamic_shapes=({0: dim},))
    name = "x.shape[0]" if dim is Dim.AUTO else "b"
    told = [one.partition("holds where ")[2] for one in program.report.specialised]
    assert sorted(told) == [f"{name} <= 5", f"{name} > 2"]
    asked = Dim("b", min=3, max=5)
    program = opgraft.torch.export(model, (X,), dynamic_shapes=({0: asked},))
    assert not program.report.specialised


REFUSED = {
    "range": (lambda x: x + 1, (X,), ({0: Dim("b", max=3)},), r"4 not in range \[0, 3\]"),
    "unequal": (
        lambda x, y: x.sum() + y.sum(),
        (X, X[:3]),
        ({0: (same := Dim("b"))}, {0: same}),
        "'b' names different sizes: axis 0 of input 'x' is 4, axis 0 of input 'y' is 3",
    ),
    "derived": (
        lambda x, y: x.sum() + y.sum(),
        (X, X[:3]),
        ({0: (base := Dim("b"))}, {0: 2 * base}),
        r"to be equal to 2\*b, where b = 4, but got 3",
    ),
    "name": (lambda x: x + 1, (X,), {"y": {0: Dim("b")}}, r"must be the arg names \['x'\]"),
    "axis": (lambda x: x + 1, (X,), ({2: "b"},), "'x' has no axis 2: it has 2 axes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_size_is_an_error(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A draft would take it, and both inputs would have a size of the same name."""
    model, args, shapes, match = REFUSED[name]
    with pytest.raises(opgraft.ModelError, match=match) as caught:
        opgraft.torch.export(model, args, dynamic_shapes=shapes)
    assert str(caught.value).startswith("dynamic_shapes: ")
    assert "Traceback" not in capfd.readouterr().err


def by_text(x):
    return x * 2 if str(x.shape[0]) == "7" else x * 3


def shown(x):
    print(f"{x.shape[0]} rows")
    return x * 3


def test_the_text_of_a_size_is_the_examples(capfd: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = {"dynamic_shapes": ({0: "batch"},), "verify": False}
    with pytest.warns(UserWarning, match="'x', axis 0 \\('batch'\\) is always 4"):
        program = opgraft.torch.export(by_text, (torch.ones(4, 3),), **options)
    assert shape_of(program, "x") == [4, 3]
    # A trace may keep the size open; then the line is told.
    report = opgraft.torch.export(by_text, (torch.ones(4, 3),), **options | {"verify": True}).report
    assert any("ask for sizes" in note and "str(x.shape[0])" in note for note in report.notes)
    program = opgraft.torch.export(shown, (torch.ones(4, 3),), **options)
    assert shape_of(program, "x") == ["batch", 3]
