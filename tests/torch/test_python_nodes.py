"""Python nodes: operators that are registered with torch from Python, and what may run them."""

from __future__ import annotations

import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402
from opgraft.torch._private import operators  # noqa: E402
from opgraft.torch._rungs import _aten_text  # noqa: E402
from opgraft.torch.operators import TorchOperator  # noqa: E402

X = torch.linspace(-2, 2, 6).reshape(2, 3)
OURS = "opgraft.torch.operators"

_numbers = count(1)

MODULE = """
    import torch

    @torch.library.custom_op("{name}::scaled", mutates_args=())
    def scaled(
        x: torch.Tensor, others: list[torch.Tensor], factor: float, sizes: list[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # By NumPy: what is plain torch code is traced, and no Python node.
        scaled = torch.from_numpy(x.numpy() * factor)
        return scaled.to(x.dtype) + sum(others) + sum(sizes), x.argmax(0)

    @scaled.register_fake
    def _(x, others, factor, sizes):
        return torch.empty_like(x), x.new_empty(x.shape[1:], dtype=torch.int64)
"""


@pytest.fixture
def module(write_module: Any) -> str:
    """The name of a module that defines <name>::scaled."""
    name = f"scaled_{next(_numbers)}"
    write_module(MODULE.replace("{name}", name), name)
    __import__(name)
    return name


def model(name: str) -> Any:
    def run(x, y):
        return getattr(torch.ops, name).scaled(x, [y, torch.relu(y)], 3.0, [x.shape[0], 4])

    return run


def test_an_operator_of_python(module: str) -> None:
    program = opgraft.torch.export(model(module), (X, X))
    rows = {row.operator: row for row in program.report.rows}
    row = rows[f"{module}::scaled"]
    assert row.kind == "python" and module in row.became and row.advice
    assert program.report.allow == sorted([OURS, module])
    for got, wanted in zip(program(X, X), model(module)(X, X), strict=True):
        torch.testing.assert_close(got, wanted)
    with pytest.raises(opgraft.UnavailableError, match=rf"{module}::scaled"):
        opgraft.torch.export(model(module), (X, X), fallback="aten")


@pytest.mark.parametrize("host", ["python", "cpp"])
def test_another_process_imports_the_module(
    module: str, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module_folder: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(module_folder))
    monkeypatch.chdir(tmp_path)
    program = opgraft.torch.export(
        model(module), (X, X), "model.onnx", dynamic_shapes=({0: "n"}, {0: "n"})
    )
    names = [one.name for one in program.model.graph.inputs]
    np.save("x.npy", np.ones((4, 3), np.float32))
    command = [sys.executable, "-m", "opgraft", "run", "model.onnx", "--host", host]
    for name in names:
        command += ["--input", f"{name}=x.npy"]
    command += ["--output", f"{program.model.graph.outputs[0].name}=y.npy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f"'{OURS}'" in done.stderr
    done = subprocess.run([*command, "--allow", OURS], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "PolicyError" in done.stderr and f"'{module}'" in done.stderr
    subprocess.run([*command, "--allow", OURS, "--allow", module], check=True)
    np.testing.assert_array_equal(np.load("y.npy"), np.full((4, 3), 3 + 1 + 1 + 4 + 4))


def test_an_operator_that_writes_to_its_arguments(write_module: Any) -> None:
    """What it changes is a result; who reads the same tensor beside it sees it unchanged."""
    name = write_module(
        """
        import torch

        @torch.library.custom_op("{name}::bump", mutates_args={"x", "z"})
        def bump(x: torch.Tensor, n: float, z: torch.Tensor) -> torch.Tensor:
            z.mul_(n)
            x.add_(n)
            return x.sum()

        @bump.register_fake
        def _(x, n, z):
            return x.new_empty(())

        @torch.library.custom_op("{name}::clear", mutates_args={"x"})
        def clear(x: torch.Tensor) -> None:
            x.zero_()
        """.replace("{name}", "changing"),
        "changing",
    )
    __import__(name)

    def model(x, z):
        y, w = x * 2, z * 2
        before = y + 1
        total = torch.ops.changing.bump(y, 3.0, w)
        cleared = x + 0
        torch.ops.changing.clear(cleared)
        return before, y, w, total, cleared

    program = opgraft.torch.export(model, (X, X + 1))
    assert {row.operator for row in program.report.rows if row.kind == "python"} == {
        "changing::bump",
        "changing::clear",
    }
    for got, wanted in zip(program(X, X + 1), model(X, X + 1), strict=True):
        torch.testing.assert_close(got, wanted)


def node(operator: str, defined_in: str = "") -> onnx.ModelProto:
    made = helper.make_node(
        "PyOp",
        ["x"],
        ["y"],
        domain="ai.opgraft.torch",
        module=OURS,
        class_name="TorchOperator",
        operator=operator,
        overload_name="",
        encoding=1,
        arguments="(%0)",
        results="float32[3]",
        output_types=[1],
        defined_in=defined_in,
    )
    x, y = (helper.make_tensor_value_info(name, 1, [3]) for name in "xy")
    return helper.make_model(helper.make_graph([made], "g", [x], [y]))


def test_what_a_model_may_not_run() -> None:
    """Neither torch's own operators, nor what a module defines that is not allowed."""
    with pytest.raises(opgraft.PyOpError, match="aten::neg is one of torch's own C.. operators"):
        opgraft.InferenceSession(node("aten::neg"), allow=[OURS, "aten::neg"])
    with pytest.raises(opgraft.PolicyError, match="'antigravity'"):
        opgraft.InferenceSession(node("some::operator", "antigravity"), allow=[OURS])
    assert "antigravity" not in sys.modules
    with pytest.raises(opgraft.PolicyError, match=r'does not name .*allow=\["some::operator"\]'):
        opgraft.InferenceSession(node("some::operator"), allow=[OURS, "some.operator", "some::o"])
    with pytest.raises(opgraft.PyOpError, match=r"no operator some::operator, .*imports="):
        opgraft.InferenceSession(node("some::operator"), allow=[OURS, "some::operator"])
    with pytest.raises(opgraft.PolicyError, match="opgraft.torch.operators"):
        opgraft.InferenceSession(node("some::operator"))


def test_another_module_than_the_operators_own_is_no_way_in(module: str) -> None:
    """A module that is allowed does not let a model run what others define."""
    __import__(module)
    for name in ("math", "torch"):
        with pytest.raises(
            opgraft.PyOpError, match=f"defined in the Python module '{module}', but"
        ):
            opgraft.InferenceSession(node(f"{module}::scaled", name), allow=[OURS, name])
    with pytest.raises(opgraft.PolicyError, match=f'allow=."{module}::scaled"'):
        opgraft.InferenceSession(node(f"{module}::scaled"), allow=[OURS, module])


def test_an_operator_without_a_module_is_allowed_by_its_name() -> None:
    # As with a library's operators: the source that defines it is no module's.
    code = """library = torch.library.Library("homeless", "DEF")
library.define("twice(Tensor x) -> Tensor")"""
    scope: dict[str, Any] = {"torch": torch}
    exec(compile(code, "<nowhere>", "exec"), scope)
    library = scope["library"]
    library.impl("twice", lambda x: x * 2, "CPU")
    library.impl("twice", torch.empty_like, "Meta")
    program = opgraft.torch.export(lambda x: torch.ops.homeless.twice(x), (X,))
    assert program.report.allow == sorted([OURS, "homeless::twice"])
    torch.testing.assert_close(program(X)[0], X * 2)
    with pytest.raises(opgraft.PyOpError, match="defined in a library, but"):
        opgraft.InferenceSession(node("homeless::twice", "math"), allow=[OURS, "math"])


def test_torchs_own_namespaces_are_known() -> None:
    """What a bare torch defines in C++ is on the list of what Python nodes do not run."""
    code = """if True:
        import torch
        for name in torch._C._dispatch_get_all_op_names():
            lines = torch._C._dispatch_dump(name).splitlines()
            defined = [line for line in lines if line.startswith("debug: ")]
            if defined and ".py:" not in defined[0]:
                print(name.partition("::")[0])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert operators._OWN.issuperset(done.stdout.split())


def test_arguments_are_read_as_they_are_written() -> None:
    text = (
        '(%0, complex(%1), [int(%2), -3], null, true, 1e-05, -inf, "a \\"b, (", '
        'torch.float32, device("cpu"), [%0, null], complex(1.0, -2.5), ints(%3), memory=[])'
    )
    tensors = [torch.ones(2), torch.ones(2, 2), torch.tensor(7), torch.tensor([4, 5])]
    args, kwargs = _aten_text.Arguments(text, "a::b").bind(tensors)
    assert args[0] is tensors[0] and args[1].tolist() == [1 + 1j, 1 + 1j]
    assert args[2:6] == [[7, -3], None, True, 1e-05] and args[6] == float("-inf")
    assert args[7] == 'a "b, (' and args[8] is torch.float32 and args[9] == torch.device("cpu")
    assert args[10][1] is None and args[11:] == [1 - 2.5j, [4, 5]] and kwargs == {"memory": []}
    for wrong in ("", "(", "(%0", "(%0))", "(torch.ones)", "(eval(%0))", "(1 2)", "(a=)", "(%)"):
        with pytest.raises(opgraft.ModelError, match="a::b: its attribute 'arguments'"):
            _aten_text.Arguments(wrong, "a::b")


def test_a_newer_encoding_is_refused() -> None:
    with pytest.raises(opgraft.UnavailableError, match="encoding 2"):
        TorchOperator("a::b", "()", "", encoding=2)
