"""What `opgraft.torch.export` is called with: what it makes of it, and what it says of mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

from eager_operators import cube  # noqa: E402, F401
from torch.export import Dim  # noqa: E402

import opgraft.torch  # noqa: E402

torch.set_num_threads(1)
X = torch.rand(3, 4)


def export(*args: Any, **kwargs: Any) -> Any:
    return opgraft.torch.export(*args, **kwargs)


@pytest.mark.parametrize(
    "function",
    [
        torch.special.i0,
        torch.ops.eager_py.Cube,
        torch.ops.eager_py.Cube.default,
        lambda *tensors: tensors[0] + 1,
    ],
)
def test_callables_without_parameters(function: Callable[..., Any]) -> None:
    """What is built in has none that Python knows of; shapes are given all the same."""
    program = export(function, (X,), dynamic_shapes=({0: "n"},))
    (given,) = program.model.graph.inputs
    assert [str(size) for size in given.shape] == ["n", "4"] and given.name == "x"
    other = torch.rand(5, 4)
    torch.testing.assert_close(program(other)[0], function(other))


@pytest.mark.parametrize("is_parameter", [False, True])
def test_a_tensor_that_is_given_twice_is_two_inputs(is_parameter: bool) -> None:
    """torch.export takes one of them for the other."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(3))

        def forward(self, x, y):
            return x - 2 * y + 3 * self.weight

    model = Model()
    x = model.weight if is_parameter else torch.rand(3)
    program = opgraft.torch.export(model, (x, x))
    x, y = torch.rand(3), torch.rand(3)
    torch.testing.assert_close(program(x, y)[0], model(x, y).detach())


def test_a_callable_with_named_arguments() -> None:
    program = export(torch.pdist, (X,), kwargs={"p": 1.0})
    torch.testing.assert_close(program(X, p=1.0)[0], torch.pdist(X, p=1.0))
    both = export(torch.ops.aten.atan2, (X,), kwargs={"other": X})
    torch.testing.assert_close(both(X, other=X)[0], torch.atan2(X, X))


def test_named_arguments_in_any_order() -> None:
    """They are inputs in the order of the parameters, and each has the sizes it was asked to."""
    shapes = {"a": {0: "n"}, "b": None}
    program = export(two, (), kwargs={"b": torch.rand(5), "a": X}, dynamic_shapes=shapes)
    inputs = {one.name: [str(size) for size in one.shape] for one in program.model.graph.inputs}
    assert inputs == {"a": ["n", "4"], "b": ["5"]} and list(inputs) == ["a", "b"]
    assert not program.report.specialised
    got = program(b=torch.ones(5), a=torch.rand(7, 4))
    assert [tuple(one.shape) for one in got] == [(7, 4), (5,)] and got[1].tolist() == [2] * 5


class Pair(NamedTuple):
    u: Any
    v: Any


def test_a_namedtuple_with_a_size_that_is_fixed() -> None:
    def model(pair: Any) -> Any:
        return pair.u.reshape(3, 4) + pair.v.sum()

    with pytest.warns(UserWarning, match="'pair_u', axis 0 .*always 3"):
        program = export(model, (Pair(X, X),), dynamic_shapes=(Pair({0: Dim.AUTO}, {0: Dim.AUTO}),))
    assert program.report.captured == "non-strict"


def two(a: Any, b: Any) -> Any:
    return a + 1, b * 2


class Model(torch.nn.Module):
    def forward(self, batch: dict[str, Any]) -> Any:
        return batch["x"] + 1


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((two, (X,)), {}, TypeError, r"two\(a.*missing a required argument: 'b'"),
        ((two, (X, X, X)), {}, TypeError, "two.*too many positional"),
        ((two, (X, X)), {"dynamic_shapes": True}, TypeError, "one entry for each argument.*True"),
        (
            (two, (X, X.T)),
            {"dynamic_shapes": ({0: "n"}, {0: "n"})},
            opgraft.ModelError,
            "'n' names different sizes: axis 0 of input 'a' is 3, axis 0 of input 'b' is 4",
        ),
        ((two, (X, X)), {"opset_version": 99}, opgraft.Error, "1 to .*not 99"),
        ((two, (X, X)), {"opset_version": "18"}, TypeError, "a number, not '18'"),
        ((two, (X, X)), {"fallback": None}, TypeError, '"auto", "none".*not None'),
        ((two, (X, X)), {"input_names": "x"}, TypeError, "a list of names, not 'x'"),
        ((two, (X, X)), {"input_names": list("abc")}, opgraft.Error, "3 names.*model has 2"),
        ((two, (X, X)), {"output_names": list("abc")}, opgraft.Error, "3 names.*model has 2"),
        (
            (two, (X, X)),
            {"custom_translation_table": {"aten::add": two}},
            TypeError,
            "operators such as .* as keys, not 'aten::add'",
        ),
        ((two, (X, X), 3), {}, TypeError, "the name of a file, not int"),
        ((two, (X, X), "no_folder/m.onnx"), {}, FileNotFoundError, "no folder no_folder"),
        ((lambda x: None, (X,)), {}, opgraft.ModelError, "returns no tensor"),
    ],
)
def test_mistakes(arguments: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        export(*arguments, **options)


def test_a_dict_at_the_end_of_the_arguments() -> None:
    """It holds the named ones, unless the model takes it as it is."""
    for args in [({"x": X},), ({"x": X}, {})]:
        program = export(Model(), args)
        torch.testing.assert_close(program({"x": X})[0], X + 1)
    torch.testing.assert_close(export(two, (X, {"b": X}))(X, b=X)[1], X * 2)


def test_an_opset_that_it_cannot_be_converted_to() -> None:
    report = export(torch.nn.ReLU(), (X,), opset_version=5).report
    assert any(re.search("opset 18 instead of 5", note) for note in report.notes)


def test_calling_a_program_with_something_else() -> None:
    program = export(two, (X, X))
    for args in [(), (X,), (X, X, X)]:
        with pytest.raises(TypeError, match=r"expected \(\*, \*\), for the inputs a, b"):
            program(*args)
    with pytest.raises(TypeError, match="not ndarray"):
        program(np.ones((3, 4), np.float32), X)


def test_a_capture_that_fails_spoils_nothing(tmp_path: Path) -> None:
    """torch leaves its transforms on where it fails inside of them."""

    def model(x: Any) -> Any:
        return torch.func.vmap(torch.func.grad(lambda v: torch.special.i0(v).sum()))(x)

    with pytest.raises(opgraft.Error, match="cannot capture model"):
        export(model, (X,), dynamic_shapes=({0: "n"},))
    torch.testing.assert_close(export(torch.relu, (X,))(X)[0], X)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        (X.clone().requires_grad_() ** 2).sum().backward()


def test_a_tensor_that_is_given_twice() -> None:
    """Two arguments are two inputs, though one tensor is the example of both."""
    x = torch.rand(3)
    program = opgraft.torch.export(lambda x, y, others: x - 2 * y + others[0], (x, x, [x]))
    args = torch.rand(3), torch.rand(3), [torch.rand(3)]
    torch.testing.assert_close(program(*args)[0], args[0] - 2 * args[1] + args[2][0])


@pytest.mark.parametrize("options", [{}, {"dynamo": False}], ids=["any way", "traced"])
def test_numbers_among_the_arguments_are_fixed(options: Any) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: Any, n: Any, bias: Any = None, *, negative: bool = False) -> Any:
            y = x * n if bias is None else x * n + bias
            return -y if negative else y

    program = opgraft.torch.export(Scaled(), (X, 3), kwargs={"negative": False}, **options)
    assert program.report.specialised == [
        "argument 'n' is always 3, as at the export",
        "argument 'negative' is always False, as at the export",
    ]
    torch.testing.assert_close(program(X, 3, negative=False)[0], X * 3)
    for n, negative, told in (
        (5, False, "the export has fixed 'n' as 3; it cannot be 5 now. Fix: "),
        (3, True, "the export has fixed 'negative' as False; it cannot be True now"),
        (torch.tensor(3), False, "it cannot be a tensor now"),
    ):
        with pytest.raises(TypeError, match=told):
            program(X, n, negative=negative)


@pytest.mark.parametrize(
    "names", [{"input_names": ["a", "a"]}, {"input_names": ["a", "b"], "output_names": ["a"]}]
)
def test_names_that_stand_twice(names: Any) -> None:
    with pytest.raises(opgraft.Error, match="'a' is given twice.*Fix: "):
        opgraft.torch.export(torch.add, (torch.ones(2), torch.ones(2)), **names)


def test_a_model_that_gives_no_tensor() -> None:
    for options in ({}, {"dynamo": False}):
        with pytest.raises(opgraft.ModelError, match="no tensor.*Fix: return tensors"):
            opgraft.torch.export(lambda x: 3, (torch.ones(2),), **options)


def test_functions_of_sizes_are_named_as_in_code() -> None:
    """No `<function _sym_sqrt at 0x7f…>`."""
    with pytest.raises(opgraft.Error) as caught:
        opgraft.torch.export(
            lambda x: x * round(x.shape[0] / 7, 1), (torch.rand(6, 4),), dynamic_shapes=({0: "n"},)
        )
    assert "<" not in str(caught.value).partition("custom_translation_table=")[2].partition("}")[0]
    assert "custom_translation_table={round: function}" in str(caught.value)
