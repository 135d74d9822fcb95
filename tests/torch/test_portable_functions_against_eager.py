"""Functions of standard ONNX against eager mode: scans, order, search, places, windows, parts.

Each family is one model with all its cases as outputs, run by plain ONNX Runtime with no node but
standard ones. Which of equal elements an index is of is any in torch for kthvalue, median and mode:
there the elements at the indices are compared.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402

F = torch.nn.functional
NAN, INFINITY = math.nan, math.inf
#: How far off results may be that are sums of many terms.
NEAR = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 2e-3}

Cases = dict[str, Callable[..., Any]]
Family = Callable[[Any], tuple[tuple[torch.Tensor, ...], Cases]]


def numbers(dtype: Any, *shape: int, seed: int = 0) -> torch.Tensor:
    """Small whole numbers, among them equal ones, with NaN, infinities and -0 where there are."""
    made = torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed))
    made = made.abs().to(dtype) if dtype in (torch.uint8, torch.bool) else made.to(dtype)
    if dtype.is_floating_point:
        flat = made.view(-1)
        for place, number in enumerate((NAN, INFINITY, -INFINITY, -0.0, 0.0, NAN, INFINITY)):
            flat[(place * 11 + 3) % len(flat)] = number
    return made


def chosen(found: Any, x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The values, and the elements at the indices."""
    values, indices = found
    if values.dim() < x.dim():
        indices = indices.unsqueeze(dim)
    return values, torch.gather(x, dim, indices)


def without_nan(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x != x, torch.ones_like(x), x)


def order(dtype: Any) -> tuple[tuple[torch.Tensor, ...], Cases]:
    x = numbers(dtype, 4, 5, 6)
    if dtype.is_floating_point:
        x[1, :, 2] = NAN
    cases: Cases = {"median": torch.median, "nanmedian": torch.nanmedian}
    for dim in (0, 1, -1):
        for keep in (False, True):
            for name in ("median", "nanmedian"):
                one = getattr(torch, name)
                cases[f"{name} {dim} {keep}"] = lambda x, one=one, dim=dim, keep=keep: chosen(
                    one(x, dim, keep), x, dim
                )
            # torch sorts by <, which NaN has no place in: what it finds then is any.
            cases[f"mode {dim} {keep}"] = lambda x, dim=dim, keep=keep: chosen(
                torch.mode(without_nan(x), dim, keep), without_nan(x), dim
            )
            for k in (1, 3, 4):
                cases[f"kthvalue {k} {dim} {keep}"] = lambda x, k=k, dim=dim, keep=keep: chosen(
                    torch.kthvalue(x, k, dim, keep), x, dim
                )
    cases["scalar"] = lambda x: (*torch.mode(x[0, 0, 0]), *torch.median(x[0, 0, 0], 0))
    return (x,), cases


def scans(dtype: Any) -> tuple[tuple[torch.Tensor, ...], Cases]:
    cases: Cases = {}
    for dim in (0, 1, -1):
        cases[f"cummax {dim}"] = lambda x, dim=dim: torch.cummax(x, dim)
        cases[f"cummin {dim}"] = lambda x, dim=dim: torch.cummin(x, dim)
    cases["nothing"] = lambda x: torch.cummax(x[:, :0], 1)
    cases["scalar"] = lambda x: torch.cummin(x[0, 0, 0], 0)
    return (numbers(dtype, 3, 9, 4),), cases


def search(dtype: Any) -> tuple[tuple[torch.Tensor, ...], Cases]:
    edges = torch.tensor([-3, -1, -1, 0, 2, 2, 2, 4]).to(dtype)
    if dtype.is_floating_point:
        ends = torch.tensor([INFINITY] * 2, dtype=dtype)
        edges = torch.cat([-ends[:1], edges, ends])
    else:
        edges = torch.cat([edges, torch.tensor([torch.iinfo(dtype).max], dtype=dtype)])
    x = torch.cat([numbers(dtype, 2, 12), edges[-1].expand(2, 1)], 1)
    cases: Cases = {}
    for right in (False, True):
        more = {"right": right}
        cases |= {
            f"searchsorted {right}": lambda e, x, more=more: torch.searchsorted(e, x, **more),
            f"bucketize {right}": lambda e, x, more=more: torch.bucketize(x, e, **more),
            f"rows {right}": lambda e, x, more=more: torch.searchsorted(
                torch.stack([e, e + 1 - 1]), x, out_int32=True, **more
            ),
            f"one edge {right}": lambda e, x, more=more: torch.bucketize(x, e[2:3], **more),
            f"no edge {right}": lambda e, x, more=more: torch.bucketize(x, e[:0], **more),
            f"scalar {right}": lambda e, x, more=more: torch.bucketize(x[0, 1], e, **more),
            f"number {right}": lambda e, x, more=more: torch.searchsorted(e, 2, **more),
        }
    cases["sorter"] = lambda e, x: torch.searchsorted(
        e.flip(0), x, sorter=torch.arange(len(e) - 1, -1, -1)
    )
    cases["side"] = lambda e, x: torch.searchsorted(e, x[:0], side="right")
    return (edges, x), cases


def choices(dtype: Any) -> tuple[tuple[torch.Tensor, ...], Cases]:
    x = torch.tensor([1, 1, 2, 2, 3, 1, 1, 0, 0, 0]).to(dtype)
    if dtype.is_floating_point:
        x[7:9] = NAN
    y = torch.tensor([[1, 1], [1, 1], [2, 1], [2, 1], [2, 1]]).to(dtype)
    every = {"return_inverse": True, "return_counts": True}
    cases: Cases = {
        "runs": lambda x, y: torch.unique_consecutive(x, **every),
        "runs of rows": lambda x, y: torch.unique_consecutive(y, dim=0, **every),
        "runs of columns": lambda x, y: torch.unique_consecutive(y, dim=1, return_counts=True),
        "runs of a matrix": lambda x, y: torch.unique_consecutive(y, return_inverse=True),
        "no runs": lambda x, y: torch.unique_consecutive(y[:0], **every),
        "masked_select": lambda x, y: torch.masked_select(x, x > 0),
        "masked_select rows": lambda x, y: torch.masked_select(y, y[:, :1] > 1),
        "nonzero of a scalar": lambda x, y: torch.nonzero(x[0]),
        "nonzero of zero": lambda x, y: torch.nonzero(x[-1]),
        "nonzero_static": lambda x, y: torch.nonzero_static(y, size=4, fill_value=7),
        "nonzero_static of a scalar": lambda x, y: torch.nonzero_static(x[0], size=3),
        "nonzero_static, more": lambda x, y: torch.nonzero_static(x, size=12),
        "squeeze": lambda x, y: torch.squeeze(x[None, :, None], (0, 1, 2)),
        "diagonal": lambda x, y: torch.diagonal_scatter(y, x[:2]),
        "diagonal below": lambda x, y: torch.diagonal_scatter(
            torch.stack([y, y]), y[:2], offset=-1, dim1=1, dim2=0
        ),
        "resize": lambda x, y: torch.ops.aten.resize(x, [3, 2]),
    }
    if dtype != torch.bool:
        cases |= {
            "amax": lambda x, y: torch.amax(x),
            "amin": lambda x, y: torch.amin(y, keepdim=True),
            "aminmax": lambda x, y: torch.aminmax(x),
            "fmax": lambda x, y: torch.fmax(x, x.flip(0)),
            "fmin": lambda x, y: torch.fmin(x[:, None], y[0]),
        }
    if dtype not in (torch.bool, torch.float16):
        cases["vander"] = lambda x, y: (torch.linalg.vander(x), torch.linalg.vander(y, N=4))
        cases["vander of a scalar"] = lambda x, y: torch.linalg.vander(x[2], N=3)
    return (x, y), cases


def places(dtype: Any) -> tuple[tuple[torch.Tensor, ...], Cases]:
    x, source = numbers(dtype, 4, 5), numbers(dtype, 4, 6, seed=1)
    index = torch.tensor([0, 2, 2, 1, 0, 2])
    spread = torch.randint(0, 5, (3, 5), generator=torch.Generator().manual_seed(2))
    cases: Cases = {
        "put": lambda x, s, i, p: torch.put(x, i * 3 - 4, s[0]),
        "put, added": lambda x, s, i, p: torch.put(x, i * 3, s[0], accumulate=True),
    }
    for kind in ("sum", "prod", "mean", "amax", "amin"):
        for keep in (False, True):
            more = {"reduce": kind, "include_self": keep}
            cases[f"scatter_reduce {kind} {keep}"] = lambda x, s, i, p, more=more: (
                torch.scatter_reduce(x, 1, p, s, **more)
            )
            if kind != "sum":
                cases[f"index_reduce {kind} {keep}"] = lambda x, s, i, p, more=more: (
                    torch.index_reduce(x, 1, i, s, **more)
                )
    return (x, source, index, spread), cases


def histograms(dtype: Any) -> tuple[tuple[torch.Tensor, ...], Cases]:
    generator = torch.Generator().manual_seed(0)
    # In sixteenths, so that edges at equal distances are exact.
    x = (torch.randint(-32, 33, (60,), generator=generator) / 16).to(dtype)
    x[:2] = torch.tensor([-2, 2])
    special = torch.tensor([NAN, INFINITY, 0, 0.25, 1, -1], dtype=dtype)
    weights = (torch.randint(0, 9, (60,), generator=generator) / 4).to(dtype)
    edges = torch.tensor([-2, -1, 0, 0.5, 2], dtype=dtype)
    table = x.view(20, 3)
    cases: Cases = {
        "counted": lambda x, w, e, t, s: torch.histogram(x, 8),
        "weighed": lambda x, w, e, t, s: torch.histogram(x, 4, weight=w),
        "density": lambda x, w, e, t, s: torch.histogram(x, 8, density=True),
        "range": lambda x, w, e, t, s: torch.histogram(s, 4, range=(0.0, 1.0)),
        "edges": lambda x, w, e, t, s: torch.histogram(x, e, weight=w, density=True),
        "one number": lambda x, w, e, t, s: torch.histogram(x[:1], 4),
        "nothing": lambda x, w, e, t, s: torch.histogram(x[:0], 4),
        "table": lambda x, w, e, t, s: torch.histogramdd(t, [2, 4, 8])[0],
        "table of edges": lambda x, w, e, t, s: torch.histogramdd(t, [e, e, e], density=True)[0],
    }
    return (x, weights, edges, table, special), cases


def windows(dtype: Any) -> tuple[tuple[torch.Tensor, ...], Cases]:
    x, volume = numbers(dtype, 2, 3, 7, 5), numbers(dtype, 2, 2, 5, 6, 7)
    x[0, 0, 0], x[0, 1, :3, :3] = -INFINITY, NAN
    random = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    where = {"return_indices": True}
    cases: Cases = {
        "adaptive 1d": lambda x, v, r: F.adaptive_max_pool1d(x[0], 3, **where),
        "adaptive 2d": lambda x, v, r: F.adaptive_max_pool2d(x, (3, 2), **where),
        "adaptive 2d, none": lambda x, v, r: F.adaptive_max_pool2d(x[0], (None, 4)),
        "adaptive 2d, all": lambda x, v, r: F.adaptive_max_pool2d(x, 1, **where),
        "adaptive 3d": lambda x, v, r: F.adaptive_max_pool3d(v, (2, 3, 4), **where),
        "negative padding": lambda x, v, r: F.pad(x, (-1, 2, 1, -2), mode="replicate"),
    }
    if dtype != torch.float16:
        cases |= {
            "fractional 2d": lambda x, v, r: F.fractional_max_pool2d(
                x, 2, output_size=(4, 3), _random_samples=r[..., :2], **where
            ),
            "fractional 2d, one": lambda x, v, r: F.fractional_max_pool2d(
                x, (3, 2), output_size=(1, 4), _random_samples=r[..., :2], **where
            ),
            "fractional 3d": lambda x, v, r: F.fractional_max_pool3d(
                v, (2, 3, 2), output_size=(3, 3, 5), _random_samples=r[:, :2], **where
            ),
        }
    return (x, volume, random), cases


def grids(dtype: Any) -> tuple[tuple[torch.Tensor, ...], Cases]:
    generator = torch.Generator().manual_seed(0)
    volume = torch.randn(2, 3, 5, 6, 7, generator=generator).to(dtype)
    grid = ((torch.rand(2, 4, 3, 5, 3, generator=generator) - 0.5) * 3).to(dtype)
    grid[0, 0, 0, 0, 0], grid[0, 1, 0, 0, 1], grid[1, 1, 1, 1] = NAN, INFINITY, 0
    grid[1, 0, 0, 0] = torch.tensor([-1, 1, 1])
    cases: Cases = {}
    for mode, padding, aligned in itertools.product((0, 1), (0, 1, 2), (False, True)):
        cases[f"mode {mode}, padding {padding}, {aligned}"] = (
            lambda v, g, more=(mode, padding, aligned): torch.grid_sampler_3d(v, g, *more)
        )
    cases["a plane"] = lambda v, g: torch.grid_sampler_3d(v[:, :, :1], g, 0, 2, True)
    return (volume, grid), cases


def segments(dtype: Any) -> tuple[tuple[torch.Tensor, ...], Cases]:
    x, table = numbers(dtype, 8, 3), numbers(dtype, 2, 3, 4, seed=1)
    lengths, rows = torch.tensor([3, 0, 4, 1]), torch.tensor([[2, 1, 0], [0, 3, 0]])
    cases: Cases = {}
    for kind in ("sum", "mean", "max", "min", "prod"):
        for initial in (None, 0.5):
            more = {"initial": initial, "unsafe": True}
            cases[f"{kind} {initial}"] = lambda x, t, n, r, kind=kind, more=more: (
                torch.segment_reduce(x, kind, lengths=n, **more),
                torch.segment_reduce(t, kind, lengths=r, axis=1, **more),
                torch.segment_reduce(x, kind, offsets=F.pad(n.cumsum(0), (1, 0)), **more),
            )
    return (x, table, lengths, rows), cases


def parts(dtype: Any) -> tuple[tuple[torch.Tensor, ...], Cases]:
    info = torch.finfo(dtype)
    special = [0.0, -0.0, 1, 2, 0.5, -4, 3, NAN, INFINITY, -INFINITY, info.max, -info.max]
    tiny = [info.smallest_normal * one for one in (1, 0.25, -0.125, info.eps)]
    powers = (2.0 ** torch.arange(-126, 127)).to(dtype)
    near = torch.tensor([*special, *tiny, 1 - info.eps / 2, 1 + info.eps], dtype=torch.float64)
    x = torch.cat([near.to(dtype), powers, -powers * 1.5])
    observed = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).to(dtype)
    cases: Cases = {
        "frexp": lambda x, m, f: torch.frexp(x),
        "towards 1": lambda x, m, f: torch.nextafter(x, torch.ones_like(x)),
        "outwards": lambda x, m, f: torch.nextafter(x, torch.full_like(x, INFINITY)),
        "across": lambda x, m, f: torch.nextafter(x, -x),
        "copysign": lambda x, m, f: 1 / torch.copysign(x[:7], x[:6, None]),
        "cov": lambda x, m, f: torch.cov(m),
        "cov of one": lambda x, m, f: (torch.cov(m[0], correction=0), torch.cov(m[:1])),
        "cov, counted": lambda x, m, f: torch.cov(m, fweights=f),
        "cov, weighed": lambda x, m, f: torch.cov(m, fweights=f, aweights=m[0].abs()),
        "corrcoef": lambda x, m, f: (torch.corrcoef(m), torch.corrcoef(m[1])),
    }
    return (x, observed, torch.tensor([1, 2, 0, 3, 1, 1])), cases


FLOATS = [torch.float32, torch.float64, torch.float16]
ALL = [*FLOATS, torch.int64, torch.int32, torch.int8, torch.uint8]
#: The types of each family, and whether its results are to the last bit those of torch.
FAMILIES: dict[Family, tuple[Sequence[Any], bool]] = {
    order: (ALL, True),
    scans: ([*ALL, torch.bool], True),
    search: ([one for one in ALL if one != torch.uint8], True),
    choices: ([*ALL, torch.bool], True),
    places: (ALL, False),
    histograms: (FLOATS[:2], False),
    windows: (FLOATS, False),
    grids: (FLOATS[:2], False),
    segments: (FLOATS, False),
    parts: (FLOATS[:2], False),
}
#: What `make test` runs: the first type of each, and integers where they take another way.
_QUICK = {(one, torch.float32) for one in FAMILIES} | {(order, torch.int64), (places, torch.int32)}


def sweep() -> list[Any]:
    return [
        pytest.param(
            family,
            dtype,
            id=f"{family.__name__}-{str(dtype)[6:]}",
            marks=() if (family, dtype) in _QUICK else pytest.mark.exhaustive,
        )
        for family, (dtypes, _) in FAMILIES.items()
        for dtype in dtypes
    ]


def leaves(found: Any) -> list[torch.Tensor]:
    return list(found) if isinstance(found, (tuple, list)) else [found]


def run(function: Any, args: Sequence[torch.Tensor], **more: Any) -> Callable[..., list[Any]]:
    """Exports to standard ONNX alone; returns a call of plain ONNX Runtime."""
    program = opgraft.torch.export(function, tuple(args), verify=False, **more)
    others = [row for row in program.report.rows if row.kind not in ("function", "standard")]
    assert not others, others
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    names = [one.name for one in session.get_inputs()]

    def call(*tensors: torch.Tensor) -> list[torch.Tensor]:
        feed = {name: one.numpy() for name, one in zip(names, tensors, strict=True)}
        return [torch.from_numpy(np.asarray(one)) for one in session.run(None, feed)]

    return call


@pytest.mark.parametrize(("family", "dtype"), sweep())
def test_against_eager(family: Family, dtype: Any) -> None:
    torch.set_num_threads(1)
    args, cases = family(dtype)
    call = run(lambda *xs: [leaves(case(*xs)) for case in cases.values()], args)
    got = iter(call(*args))
    is_exact = FAMILIES[family][1]
    for name, case in cases.items():
        for number, wanted in enumerate(leaves(case(*args))):
            near = 0.0 if is_exact or not wanted.is_floating_point() else NEAR[dtype]
            torch.testing.assert_close(
                next(got),
                wanted,
                rtol=near,
                atol=near,
                equal_nan=True,
                msg=lambda text, name=name, number=number: f"{name}, result {number}: {text}",
            )
    assert next(got, None) is None


def test_open_sizes() -> None:
    """One model for all sizes: none, one, and more than the example has."""

    def model(x: torch.Tensor, edges: torch.Tensor) -> Any:
        return (
            *torch.cummax(x, 0),
            *chosen(torch.median(x, 1), x, 1),
            torch.nanmedian(x),
            *chosen(torch.mode(x, -1), x, -1),
            torch.searchsorted(edges, x, right=True),
            *torch.unique_consecutive(x, return_inverse=True, return_counts=True),
            torch.masked_select(x, x > 0),
            torch.amax(x, keepdim=True),
        )

    sizes = ({0: "rows", 1: "columns"}, {0: "edges"})
    args = torch.randn(5, 7), torch.linspace(-2, 2, 6)
    call = run(model, args, dynamic_shapes=sizes)
    for rows, columns, edges in ((5, 7, 6), (1, 1, 1), (33, 2, 0), (2, 65, 130)):
        x, e = torch.randn(rows, columns).round(decimals=1), torch.linspace(-2, 2, edges)
        for place, (got, wanted) in enumerate(zip(call(x, e), model(x, e), strict=True)):
            assert torch.equal(got, wanted), (place, rows, columns, edges, got, wanted)


def test_torchs_own_translation_loses_nan() -> None:
    """Why scatter_reduce is always ours for the largest and the smallest."""
    x, index = torch.zeros(3), torch.tensor([0, 0, 1, 2])
    source = torch.tensor([NAN, 5, NAN, 1])
    for kind in ("amax", "amin"):
        program = opgraft.torch.export(
            lambda x, i, s, kind=kind: torch.scatter_reduce(x, 0, i, s, kind), (x, index, source)
        )
        assert [row.kind for row in program.report.rows] == ["function"]
        assert torch.isnan(program(x, index, source)[0]).tolist() == [True, True, False]
