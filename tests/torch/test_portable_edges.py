"""Functions of standard ONNX at what the example of an export does not have: NaN, overflow,
nothing, and numbers of another type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F

import opgraft.torch

NAN, INF = math.nan, math.inf


def ran(function: Callable[..., Any], example: Any, given: Any, **named: Any) -> np.ndarray:
    """Exports with the example and returns what ONNX Runtime gives for other numbers."""
    program = opgraft.torch.export(function, example, **named)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feed = {one.name: x.numpy() for one, x in zip(session.get_inputs(), given, strict=True)}
    return session.run(None, feed)[0]


@pytest.mark.parametrize(
    ("function", "boundaries"),
    [
        (lambda b: torch.searchsorted(b, 3.5), [1, 3, 5]),
        (lambda b: torch.searchsorted(b, -3.5, right=True), [-4, -3, 0]),
        (lambda b: torch.bucketize(3.5, b), [1, 3, 5]),
    ],
)
def test_a_number_among_integers_is_not_cut(
    function: Callable[..., torch.Tensor], boundaries: list[int]
) -> None:
    """These become ATen nodes, which plain sessions lack."""
    program = opgraft.torch.export(function, (torch.tensor([1, 10, 50]),))
    given = torch.tensor(boundaries)
    assert int(program(given)[0]) == int(function(given))


@pytest.mark.parametrize("p", [0.0, INF])
@pytest.mark.parametrize("function", [F.pdist, lambda x, p: torch.cdist(x, x, p)])
def test_distances_with_nan(function: Callable[..., torch.Tensor], p: float) -> None:
    x = torch.tensor([[NAN, 1, 2], [1, 1, 1.0], [INF, 0, 3], [INF, 2, 3]])
    came = ran(lambda x: function(x, p), (torch.rand(4, 3),), (x,))
    np.testing.assert_array_equal(came, function(x, p).numpy())


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_many_distances_do_not_take_the_memory(p: float) -> None:
    x = torch.rand(400, 64)
    program = opgraft.torch.export(lambda x: torch.cdist(x, x, p), (x,))
    assert "aten" in {row.kind for row in program.report.rows}


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32])
def test_means_of_integers_overflow_as_in_torch(dtype: torch.dtype) -> None:
    def mean(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return x.scatter_reduce(0, index, source, "mean", include_self=False)

    large = torch.iinfo(dtype).max
    x, index = torch.zeros(2, dtype=dtype), torch.tensor([0] * 300 + [1] * 256)
    source = torch.tensor([large] * 3 + [5] * 297 + [1] * 256, dtype=dtype)
    came = ran(mean, (x, index, torch.ones_like(source)), (x, index, source))
    np.testing.assert_array_equal(came, mean(x, index, source).numpy())


def test_zeta_of_infinity() -> None:
    s, q = torch.full((6,), INF), torch.tensor([1, 0.5, -2.5, 1.5, 2, INF])
    came = ran(torch.special.zeta, (torch.full((6,), 2.0), torch.ones(6)), (s, q))
    np.testing.assert_array_equal(came, torch.special.zeta(s, q).numpy())


def test_a_histogram_of_many_bins_is_a_small_model() -> None:
    bins = [60, 60, 60]
    program = opgraft.torch.export(
        lambda x: torch.histogramdd(x, bins, range=[0.0, 1.0] * 3).hist, (torch.rand(50, 3),)
    )
    assert len(program.model_proto.SerializeToString()) < 200_000


def test_the_median_of_nothing_along_an_axis_is_an_error() -> None:
    with pytest.raises(Exception, match=r"TopK|k"):
        ran(
            lambda x: x.median(1).values,
            (torch.rand(3, 4),),
            (torch.rand(3, 0),),
            dynamic_shapes=({1: "n"},),
        )


def test_the_inverse_of_unique_rows_of_nothing() -> None:
    def inverse(x: torch.Tensor) -> torch.Tensor:
        return torch.unique_consecutive(x, return_inverse=True, dim=0)[1]

    came = ran(inverse, (torch.rand(3, 2),), (torch.rand(3, 0),), dynamic_shapes=({1: "n"},))
    assert came.min() >= 0
