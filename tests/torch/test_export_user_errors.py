"""Translations of the user's that raise: the error says whose function it is, and which one."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402

X = torch.rand(3)
RELU = torch.ops.aten.relu.default


def relu(x, scale=1):
    number = 2
    raise LookupError(f"no such thing: {number}")


class Callable:
    def __call__(self, x):
        raise LookupError("no such thing")


def ours(x):
    raise opgraft.Error("no such thing")


@functools.wraps(relu)
def wrapped(x):
    return relu(x)


FUNCTIONS = {
    "function": (relu, "relu"),
    "partial": (functools.partial(relu, scale=3), "relu"),
    "decorated": (wrapped, "relu"),
    "object": (Callable(), "Callable"),
    "with an error of ours": (ours, "ours"),
}


def line_of(name: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if f"def {name}(" in line)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_named(name: str) -> None:
    function, written = FUNCTIONS[name]
    with pytest.raises(opgraft.UnavailableError) as caught:
        opgraft.torch.export(
            lambda x: torch.relu(x) + 1, (X,), custom_translation_table={RELU: function}
        )
    message = str(caught.value)
    start = line_of("__call__" if name == "object" else written)
    assert message.startswith(f"your translation of aten::relu, {__name__}.{written} ({__file__}, ")
    assert f"line {start})" in message and "raised in line " in message
    assert "for node 'relu'" in message and "no such thing" in message and "Fix" in message
    cause = caught.value.__cause__
    assert isinstance(cause, (LookupError, opgraft.Error)) and "no such thing" in str(cause)
    assert cause.__traceback__ is not None


def test_a_symbolic_function_that_was_registered() -> None:
    def symbolic(g: Any, x: Any) -> Any:
        raise LookupError("no such thing")

    opgraft.torch.register_custom_op_symbolic("aten::relu", symbolic, 1)
    try:
        with pytest.raises(
            opgraft.UnavailableError, match="your translation of aten::relu, .*line"
        ):
            opgraft.torch.export(lambda x: torch.relu(x) + 1, (X,))
    finally:
        opgraft.torch.unregister_custom_op_symbolic("aten::relu", 1)


def test_a_function_of_the_registry() -> None:
    registry = opgraft.torch.OnnxRegistry()
    registry.register_op(relu, "aten", "relu", "default")
    with pytest.raises(opgraft.UnavailableError, match=f"aten::relu, {__name__}.relu") as caught:
        opgraft.torch.export(
            lambda x: torch.relu(x) + 1, (X,), custom_translation_table=registry.translations()
        )
    assert isinstance(caught.value.__cause__, LookupError)


def test_what_it_gives_that_torch_cannot_use() -> None:
    with pytest.raises(opgraft.UnavailableError, match="returned a value that torch cannot use"):
        opgraft.torch.export(
            lambda x: torch.relu(x) + 1, (X,), custom_translation_table={RELU: lambda x: 7}
        )
