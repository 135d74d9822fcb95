"""What exports say of models that they refuse: the line that matters first, and nothing twice."""

from __future__ import annotations

import ctypes
import io
import logging
import sys
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
onnxscript = pytest.importorskip(
    "onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]"
)

import opgraft.torch  # noqa: E402
from opgraft.torch._capture import _guards  # noqa: E402

X = torch.tensor([[1.0, 2.0, 3.0], [4.0, 6.0, 7.0]])
opset20 = onnxscript.opset20


@onnxscript.script()
def floor_of_another_opset(x):  # type: ignore[no-untyped-def]
    return opset20.Floor(x)


def test_a_translation_in_another_opset() -> None:
    table = {torch.ops.aten.floor.default: floor_of_another_opset}
    with pytest.raises(opgraft.Error) as caught:
        opgraft.torch.export(torch.floor, (X,), custom_translation_table=table)
    assert "the function for aten::floor cannot become part of the model" in str(caught.value)
    assert "Fix: " in str(caught.value)


def refused(model: Any, *args: Any, **options: Any) -> str:
    with pytest.raises(opgraft.ModelError, match="^[^\n]* decides by data") as caught:
        opgraft.torch.export(model, args or (X,), **options)
    return str(caught.value)


def _three(x: Any, n: Any) -> Any:
    for _ in range(int(n)):
        x = x * 2
    y = x if x.max() > 1 else x + 1
    return y * {0: 1.0, 1: 2.0}[int(n) % 2]


def test_all_lines_that_decide_are_named() -> None:
    told = refused(_three, X, torch.tensor(3))
    assert [part in told for part in ("range(int(n))", "x.max() > 1", "int(n) % 2]")] == [True] * 3


def _texts(x: Any) -> Any:
    return x * 2 if "5" in str(x) else -x


def _number_as_text(x: Any) -> Any:
    return x * len(str(x[0, 0].item()))


def _dlpack(x: Any) -> Any:
    return x * float(np.from_dlpack(x).max())


def _formatted(x: Any) -> Any:
    return x * float(f"{x[0, 0].item():.0f}")


def _in_braces(x: Any) -> Any:
    return x * 2 if "5." in f"{x}" else -x


def _by_format(x: Any) -> Any:
    return x * 2 if "5." in "{}".format(x) else -x  # noqa: UP032


def _printed_to_memory(x: Any) -> Any:
    memory = io.StringIO()
    print(x, file=memory)
    return x * 2 if "5." in memory.getvalue() else -x


class _Writer:
    text = ""

    def write(self, text: str) -> None:
        self.text = text

    log = write


def _written_to_memory(x: Any) -> Any:
    writer = _Writer()
    writer.log(str(x))
    return x * 2 if "5." in writer.text else -x


def _storage(x: Any) -> Any:
    return x * 2 if x.storage()[0] > 100 else x


def _address(x: Any) -> Any:
    return x * 2 if ctypes.c_float.from_address(x.data_ptr()).value > 100 else x


def _uninitialised(x: Any) -> Any:
    return x * 2 if torch.empty(1).item() > 0.5 else -x


@pytest.mark.parametrize("options", [{}, {"dynamo": False}], ids=["any way", "traced"])
@pytest.mark.parametrize(
    "model",
    [
        *(_texts, _number_as_text, _in_braces, _by_format, _printed_to_memory, _written_to_memory),
        *(_dlpack, _storage, _address, _formatted, _uninitialised),
    ],
)
def test_texts_arrays_and_chance_are_guards(model: Any, options: Any) -> None:
    told = refused(model, **options)
    assert "test_export_messages.py, line" in told.splitlines()[1]
    assert "Fix: " in told.splitlines()[2]


LOG = logging.getLogger("opgraft.test")


def _shown(x: Any) -> Any:
    print("x", x)
    print(f"{x}")
    sys.stderr.write(str(x))
    LOG.debug(f"{x}")
    logging.debug(str(x))
    return x * 2


@pytest.mark.parametrize("options", [{}, {"dynamo": False}], ids=["any way", "traced"])
def test_texts_that_are_shown_are_none(options: Any, capfd: Any) -> None:
    program = opgraft.torch.export(_shown, (X,), **options)
    torch.testing.assert_close(program(X + 1)[0], (X + 1) * 2)


def test_the_text_of_a_specialised_model_is_that_of_the_example() -> None:
    with pytest.warns(UserWarning, match="specialised"):
        program = opgraft.torch.export(_number_as_text, (X,), specialise=True, verify=False)
    torch.testing.assert_close(program(X)[0], X * 3)


def test_what_is_only_shown_is_no_guard(capfd: pytest.CaptureFixture[str]) -> None:
    def model(x: Any) -> Any:
        print(x)
        return x * 2

    opgraft.torch.export(model, (X,))


def test_memory_that_is_filled_is_no_chance() -> None:
    def model(x: Any) -> Any:
        return x * 2 if torch.empty(3).fill_(2).sum().item() > 5 else -x

    program = opgraft.torch.export(model, (X,), dynamo=False)
    torch.testing.assert_close(program(-X)[0], model(-X))


def test_a_line_that_was_asked_twice_does_not_contradict_itself() -> None:
    line = _guards.Line("model.py", 3, "if a:")
    yes, no = _guards.Guard(line, "a > 1"), _guards.Guard(line, "not (a > 1)")
    (one,) = _guards.merged([yes, no])
    assert one.condition == "`a > 1` is the same each time as in the example"


def _values(x: Any) -> Any:
    total = 0
    for value in x[:, 0].tolist():
        total += 1 if value > 2 else 0
    return x * total


def test_a_loop_over_values() -> None:
    told = refused(_values, dynamo=False)
    assert "goes over the same values as in the example" in told
    assert "runs as often" not in told


def test_sizes_of_one_name_are_told_once() -> None:
    sizes = ({0: "batch"}, {0: "batch"})
    program = opgraft.torch.export(lambda x, y: (x * 2, y), (X, X), dynamic_shapes=sizes)
    assert program.report.verified[1].count("batch=") == 1


def test_a_bound_of_torch_that_does_not_matter_is_not_said() -> None:
    """It takes another kernel from 26 rows on."""
    program = opgraft.torch.export(
        lambda x: torch.cdist(x, x), (torch.randn(2, 7, 3),), dynamic_shapes=({1: "s"},)
    )
    assert not program.report.specialised
    x = torch.randn(2, 40, 3)
    torch.testing.assert_close(program(x)[0], torch.cdist(x, x), rtol=1e-3, atol=2e-3)


class Packed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.GRU(3, 4, batch_first=True)

    def forward(self, x: Any, lengths: Any) -> Any:
        pack = torch.nn.utils.rnn.pack_padded_sequence
        packed, _ = self.layer(pack(x, lengths, batch_first=True, enforce_sorted=False))
        return torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)[0]


def test_torch_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    level = logging.getLogger("torch.onnx").level
    opgraft.torch.export(torch.nn.GRU(3, 4), (torch.randn(5, 2, 3),))
    args = torch.randn(2, 5, 3), torch.tensor([5, 3])
    opgraft.torch.export(Packed().eval(), args, dynamo=False)
    assert logging.getLogger("torch.onnx").level == level
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("", "")


def _contains(x: Any) -> Any:
    return x * 2 if 1.0 in x else x * 3


def _over_rows(x: Any) -> Any:
    y = torch.zeros_like(x)
    for row, column in (x > 3).nonzero():
        y[row, column] = row + column
    return y


@pytest.mark.parametrize("model", [_contains, _over_rows])
def test_lines_that_torch_omits_are_those_of_the_model(model: Any) -> None:
    told = refused(model)
    assert "opgraft" not in told.replace("tests/torch", "").partition("To export")[0]
    lines = [line for line in told.splitlines() if ".py, line " in line]
    assert lines and all("test_export_messages.py, line " in line for line in lines)
