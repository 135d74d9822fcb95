"""Operators of torch.library.custom_op whose bodies, plain torch code, stand for them."""

from __future__ import annotations

import math
import time
from typing import Any

import onnxruntime
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402

# Of which functions of ours would be right.
pytestmark = pytest.mark.usefixtures("without_special_functions")

X = torch.linspace(-2, 2, 6).reshape(2, 3)
FACTOR = 3.0
TABLE = {"factor": 2.0}
TENSOR = torch.ones(3)
Tensor = torch.Tensor


def define(name: str, body: Any) -> Any:
    """An operator that gives tensors like its first argument."""
    made = torch.library.custom_op(f"opened::{name}", body, mutates_args=())
    made.register_fake(lambda x, *others: torch.empty_like(x))
    return getattr(torch.ops.opened, name)


def rectified(x: Tensor) -> Tensor:
    return torch.relu(x) * FACTOR


def mixed(x: Tensor, others: list[Tensor], factor: float, sizes: list[int]) -> Tensor:
    """Calls another function, writes to a tensor of its own, and has a loop."""
    result = torch.zeros_like(x)
    result[:1] = rectified(x[:1])
    for place, one in enumerate(others):
        result += one * (place + math.pi)
    return result * factor + sum(sizes) + torch.tensor([1.0, 2.0, 3.0])


def inverted(x: Tensor) -> Tensor:
    """What torch lacks is as good a node here as in the model itself."""
    square = x @ x.T + torch.eye(x.shape[0])
    return torch.special.airy_ai(x) + torch.linalg.inv(square)[0, 0]


MIXED, INVERTED = define("mixed", mixed), define("inverted", inverted)


def model(x: Tensor, y: Tensor) -> Tensor:
    y = y + x * 0  # so that both have as many rows, which the operator does not tell
    return MIXED(x, [y, torch.relu(y)], 2.0, [x.shape[0], 4])


@pytest.mark.parametrize("is_open", [False, True])
def test_plain_torch_code(is_open: bool) -> None:
    sizes = ({0: "rows"}, {0: "rows"}) if is_open else None
    program = opgraft.torch.export(model, (X, X), dynamic_shapes=sizes)
    assert program.report.is_portable and program.report.verified, program.report
    assert {row.part_of for row in program.report.rows} >= {"opened::mixed"}
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    args = [torch.randn(5 if is_open else 2, 3) for _ in range(2)]
    feed = {one.name: arg.numpy() for one, arg in zip(session.get_inputs(), args, strict=True)}
    torch.testing.assert_close(torch.from_numpy(session.run(None, feed)[0]), model(*args))


def test_what_the_body_calls_falls_back_alone() -> None:
    program = opgraft.torch.export(INVERTED, (X,))
    kinds = {row.operator: row.kind for row in program.report.rows if row.kind != "standard"}
    assert kinds == {"aten::special_airy_ai": "aten", "aten::linalg_inv": "pack"}
    assert program.report.verified


def by_table(x: Tensor) -> Tensor:
    return x * TABLE["factor"]


def by_tensor(x: Tensor) -> Tensor:
    return x * TENSOR


def by_clock(x: Tensor) -> Tensor:
    return x * (time.time() > 0)


def by_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(x.numpy() * 2)


def by_mode(x: Tensor) -> Tensor:
    return x * 3 if torch.is_grad_enabled() else x * 2


def by_data(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 1000 else x * 3


def by_size(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] > 3 else x * 3


def counting(x: Tensor, calls: list[int] = []) -> Tensor:  # noqa: B006
    return x * len(calls)


def by_default(x: Tensor) -> Tensor:
    return counting(x)


def by_strides(x: Tensor) -> Tensor:
    return x * x.stride(0)


def by_writing(x: Tensor) -> Tensor:
    x.add_(0)
    return x * 2


def by_counting(x: Tensor) -> Tensor:
    global CALLS
    CALLS = 1
    return x * 2


CLOSED = {
    by_table: "it uses 'TABLE', a dict",
    by_tensor: "it uses 'TENSOR', a tensor that is not an argument",
    by_clock: "it uses the module time",
    by_numpy: "it reads 'from_numpy'",
    by_mode: "it reads 'is_grad_enabled'",
    by_data: "GuardOnDataDependentSymNode",
    by_size: "Constraints violated",
    by_default: "it uses 'a default', a list",
    by_strides: "it reads 'stride'",
    by_writing: "it writes to its arguments",
    by_counting: "it writes to 'CALLS', which is not a local variable",
}


@pytest.fixture(scope="module")
def closed() -> Any:
    """All of them in one model, whose sizes are open, by the names of their bodies."""
    made = [define(body.__name__, body) for body in CLOSED]

    def run(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(one(x + place) for place, one in enumerate(made))

    return opgraft.torch.export(run, (X,), dynamic_shapes=({0: "rows"},), verify=False)


@pytest.mark.parametrize("body", CLOSED, ids=lambda body: str(body.__name__))
def test_what_arguments_alone_do_not_decide_is_a_python_node(body: Any, closed: Any) -> None:
    """Verified or not: what a trace would freeze cannot be seen with one example."""
    row = next(one for one in closed.report.rows if one.operator == f"opened::{body.__name__}")
    assert row.kind == "python"
    assert CLOSED[body] in row.because, row.because


def test_what_the_user_says_goes_first() -> None:
    def body(x: Tensor) -> Tensor:
        return x + x

    doubled = define("doubled", body)

    @opgraft.op("test.opened::Doubled", torch="opened::doubled")
    def stands_for_it(x):
        return x * 2

    def translate(x):
        from onnxscript import opset18

        return opset18.Mul(x, opset18.Constant(value_float=2.0))

    program = opgraft.torch.export(doubled, (X,))
    assert [row.kind for row in program.report.rows] == ["operator"]
    table = {doubled.default: translate}
    program = opgraft.torch.export(doubled, (X,), custom_translation_table=table)
    assert [row.kind for row in program.report.rows] == ["user"]


def test_a_body_that_was_replaced_on_the_cpu() -> None:
    """What runs is what is traced."""
    tripled = torch.library.custom_op(
        "opened::tripled", lambda x: x * 2, schema="(Tensor x) -> Tensor", mutates_args=()
    )
    tripled.register_kernel("cpu")(lambda x: x * 3)
    tripled.register_fake(torch.empty_like)
    program = opgraft.torch.export(torch.ops.opened.tripled, (X,))
    assert program.report.is_portable
    torch.testing.assert_close(program(X)[0], X * 3)


def test_experts() -> None:
    """Of Mixtral: rows in groups, a matrix for each; a group may be empty, rows may be left."""
    rows, matrices = torch.randn(10, 16).bfloat16(), torch.randn(3, 16, 32).bfloat16()
    ends = torch.tensor([4, 4, 8], dtype=torch.int32)

    def experts(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
        return torch.nn.functional.grouped_mm(rows, matrices, offs=ends)[:8]

    args = rows, matrices, ends
    program = opgraft.torch.export(experts, args, dynamic_shapes=({0: "rows"}, None, None))
    assert program.report.is_portable and program.report.verified, program.report
    others = torch.tensor([0, 5, 8], dtype=torch.int32)
    torch.testing.assert_close(
        program(rows, matrices, others)[0], experts(rows, matrices, others), rtol=2e-2, atol=2e-2
    )
