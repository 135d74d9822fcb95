"""as_strided: by the memory that a tensor has in torch, which ONNX does not have."""

from __future__ import annotations

from typing import Any

import onnxruntime
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402

X = torch.arange(-40.0, 80.0).reshape(4, 6, 5)


def run_plainly(program: Any, x: torch.Tensor) -> torch.Tensor:
    """In a session without Opgraft."""
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


def views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Each reads other memory than a contiguous tensor of its shape would have."""
    y = torch.relu(x.transpose(0, 2))  # its memory is that of x
    doubled = x * 2
    written = torch.relu(x.transpose(0, 1))
    written.as_strided((3, 4), (5, 2)).mul_(3)
    return (
        y.as_strided((3, 4), (5, 2), 3),
        y.transpose(1, 2).as_strided((3, 4), (5, 2)),
        doubled[1:3].as_strided((3, 4), (5, 2)),  # begins where the slice does
        doubled[1:3, :, 1:].as_strided((3, 4), (5, 2), 0),  # before it, and between its rows
        doubled.as_strided((3, 4), (5, 2), 1).as_strided((7, 2), (1, 1)),
        doubled.expand(3, 4, 6, 5).as_strided((7, 2), (1, 1)),
        y.as_strided((), (), 7),
        torch.as_strided_copy(y, (2, 3), (2, 1)),
        torch.as_strided_scatter(y, torch.ones(3, 4), (3, 4), (5, 1)),
        written,
    )


def test_views_of_all_kinds() -> None:
    program = opgraft.torch.export(views, (X,))
    assert program.report.is_portable and program.report.verified, program.report
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    results = session.run(None, {session.get_inputs()[0].name: X.numpy()})
    for place, (got, wanted) in enumerate(zip(results, views(X), strict=True)):
        assert torch.equal(torch.from_numpy(got), wanted), place


def windows(x: torch.Tensor) -> torch.Tensor:
    """Windows that overlap by half, as Longformer has them."""
    rows = torch.relu(x.transpose(0, 1))  # (rows, batch, 5), in the memory of (batch, rows, 5)
    count, batch, width = rows.shape
    down, across, _ = rows.stride()
    return rows.as_strided((batch, count // 2 - 1, 4, width), (across, 2 * down, down, 1))


def test_open_sizes() -> None:
    program = opgraft.torch.export(windows, (X,), dynamic_shapes=({0: "batch", 1: "rows"},))
    assert program.report.is_portable and program.report.verified, program.report
    x = torch.randn(3, 10, 5)
    assert torch.equal(run_plainly(program, x), windows(x))


def test_an_argument_that_is_not_contiguous() -> None:
    program = opgraft.torch.export(lambda x: x.as_strided((3, 4), (5, 2)), (X.transpose(0, 1),))
    x = X.transpose(0, 1)
    assert torch.equal(run_plainly(program, x), x.as_strided((3, 4), (5, 2)))


@pytest.mark.parametrize("verify", [True, False])
def test_memory_that_no_tensor_has_is_refused(verify: bool) -> None:
    """What lies before the argument, and is given with it in torch, is not in ONNX."""
    with pytest.raises(opgraft.UnavailableError, match=r"strides \[30, 5, 1\] that begins at 30"):
        opgraft.torch.export(lambda x: x.as_strided((3, 4), (5, 2)), (X[1:],), verify=verify)
