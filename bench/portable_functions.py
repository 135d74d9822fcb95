"""Torch operators as functions of standard ONNX: how exact they are, and how fast.

python bench/portable_functions.py            # against the ATen node: 1, 1,000, 1,000,000
python bench/portable_functions.py --errors   # against mpmath: the table of docs/functions.md
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import onnxruntime
import torch
from torch import special

import opgraft
import opgraft.torch

#: Bits of the multi-precision reference.
PRECISION = 160
SIZES = (1, 1_000, 1_000_000)


@dataclass(frozen=True)
class Portable:
    """One operator of one number, its exact value, and where it is compared."""

    operator: Callable[[torch.Tensor], torch.Tensor]
    exact: Callable[[Any], Any]
    #: Intervals, of numbers that are spread evenly; or, if both ends have the same sign and the
    #: larger one is 1000 times the smaller one or more, by their logarithms.
    intervals: tuple[tuple[float, float], ...]
    #: What the speed is measured with.
    usual: tuple[float, float] = (0.1, 12.0)


def _mp(name: str) -> Callable[[Any], Any]:
    return getattr(mpmath, name)  # type: ignore[no-any-return]


def _log_ndtr(x: Any) -> Any:
    return mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2)


def _erfcx(x: Any) -> Any:
    if x > 1e6:  # where erfc is no number of mpmath's any more
        return (1 - 1 / (2 * x * x)) / (x * mpmath.sqrt(mpmath.pi))
    return mpmath.exp(x * x) * mpmath.erfc(x)


def _ndtri(p: Any) -> Any:
    """By Newton's steps from the result in doubles."""
    start = float(special.ndtri(torch.tensor(float(p), dtype=torch.float64)))
    z = mpmath.mpf(start)
    for _ in range(4):
        density = mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi)
        z -= (mpmath.erfc(-z / mpmath.sqrt(2)) / 2 - p) / density
    return z


def _erfinv(y: Any) -> Any:
    start = float(torch.erfinv(torch.tensor(float(y), dtype=torch.float64)))
    z = mpmath.mpf(start)
    for _ in range(4):
        z -= (mpmath.erf(z) - y) * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(z * z)
    return z


def _bessel(kind: str, order: int, scale: int = 0) -> Callable[[Any], Any]:
    found = getattr(mpmath, f"bessel{kind}")
    return lambda x: found(order, x) * (mpmath.exp(scale * abs(x)) if scale else 1)


def _polygamma(n: int) -> Portable:
    intervals = ((1e-5, 1e5), (0.5, 8.0), (-9.9, -0.1))
    return Portable(lambda x: torch.polygamma(n, x), lambda x: mpmath.polygamma(n, x), intervals)


_BOTH = ((-12.0, 12.0), (1e-30, 1.0), (12.0, 2000.0), (-2000.0, -12.0))
_POSITIVE = ((1e-30, 1.0), (0.5, 20.0), (20.0, 85.0))
_SCALED = ((1e-30, 1.0), (-20.0, 20.0), (20.0, 1e5))

FUNCTIONS = {
    "special.erfcx": Portable(special.erfcx, _erfcx, ((-9.0, 9.0), (1e-30, 1.0), (9.0, 1e30))),
    "special.log_ndtr": Portable(special.log_ndtr, _log_ndtr, ((-9.0, 12.0), (-1000.0, -9.0))),
    "erfinv": Portable(
        torch.erfinv, _erfinv, ((-0.999, 0.999), (0.9, 0.9999999), (1e-30, 0.1)), (-0.99, 0.99)
    ),
    "special.ndtri": Portable(
        special.ndtri, _ndtri, ((0.01, 0.49), (0.51, 0.999), (1e-30, 0.1)), (0.01, 0.99)
    ),
    "i0": Portable(torch.i0, _bessel("i", 0), ((-20.0, 20.0), (20.0, 85.0))),
    "special.i0e": Portable(special.i0e, _bessel("i", 0, -1), _SCALED),
    "special.i1": Portable(special.i1, _bessel("i", 1), ((-20.0, 20.0), (20.0, 85.0))),
    "special.i1e": Portable(special.i1e, _bessel("i", 1, -1), _SCALED),
    "special.modified_bessel_k0": Portable(special.modified_bessel_k0, _bessel("k", 0), _POSITIVE),
    "special.modified_bessel_k1": Portable(special.modified_bessel_k1, _bessel("k", 1), _POSITIVE),
    "special.scaled_modified_bessel_k0": Portable(
        special.scaled_modified_bessel_k0, _bessel("k", 0, 1), _POSITIVE
    ),
    "special.scaled_modified_bessel_k1": Portable(
        special.scaled_modified_bessel_k1, _bessel("k", 1, 1), _POSITIVE
    ),
    "special.bessel_j0": Portable(special.bessel_j0, _bessel("j", 0), _BOTH),
    "special.bessel_j1": Portable(special.bessel_j1, _bessel("j", 1), _BOTH),
    "special.bessel_y0": Portable(
        special.bessel_y0, _bessel("y", 0), ((1e-30, 1.0), (0.5, 12.0), (12.0, 2000.0))
    ),
    "special.bessel_y1": Portable(
        special.bessel_y1, _bessel("y", 1), ((1e-30, 1.0), (0.5, 12.0), (12.0, 2000.0))
    ),
    "special.spherical_bessel_j0": Portable(
        special.spherical_bessel_j0, lambda x: mpmath.sin(x) / x, ((-20.0, 20.0), (20.0, 1e5))
    ),
    "special.airy_ai": Portable(
        special.airy_ai, _mp("airyai"), ((-20.0, 12.0), (12.0, 24.0), (-400.0, -20.0))
    ),
    "digamma": Portable(torch.digamma, _mp("digamma"), _polygamma(0).intervals),
    **{f"polygamma({n})": _polygamma(n) for n in (1, 2, 3, 4)},
}


#: Left to the next rung: roundings of ONNX Runtime's kernels in doubles would show.
_NOT_OF_DOUBLES = re.compile(r"erfinv|ndtri$|airy|i[01]e?$|_k[01]$|spherical|polygamma\(1\)")


def taken(dtype: torch.dtype) -> dict[str, Portable]:
    """Returns the functions that take this type."""
    return {
        name: one
        for name, one in FUNCTIONS.items()
        if dtype != torch.float64 or not _NOT_OF_DOUBLES.search(name)
    }


def numbers(one: Portable, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Returns numbers of all intervals, as they are in this type."""
    random = np.random.default_rng(0)
    found = []
    for low, high in one.intervals:
        places = (np.arange(count) + random.random(count)) / count
        if low * high > 0 and max(low / high, high / low) >= 1000:
            found.append(low * (high / low) ** places)
        else:
            found.append(low + (high - low) * places)
    return torch.from_numpy(np.concatenate(found)).to(dtype)


def portable(
    operators: list[Callable[[torch.Tensor], torch.Tensor]], dtype: torch.dtype
) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    """Exports operators as one model of standard ONNX; each has an input of its own."""

    def model(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(one(x) for one, x in zip(operators, inputs, strict=True))

    example = tuple(torch.full((3,), 0.5, dtype=dtype) for _ in operators)
    program = opgraft.torch.export(
        model,
        example,
        dynamic_shapes=tuple({0: f"n{place}"} for place in range(len(operators))),
        verify=False,
        optimize=False,
        fallback=("function",),
        progress=False,
    )
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    names = [one.name for one in session.get_inputs()]

    def run(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        feed = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
        return [torch.from_numpy(one) for one in session.run(None, feed)]

    return run


def errors(
    one: Portable, x: torch.Tensor, results: list[torch.Tensor]
) -> list[np.ndarray[Any, Any]]:
    """Returns how far each of the results is off, in units in the last place of the exact one."""
    kind = torch.finfo(x.dtype)
    units = [[] for _ in results]  # type: list[list[float]]
    with mpmath.workprec(PRECISION):
        for place, number in enumerate(x.tolist()):
            exact = one.exact(mpmath.mpf(number))
            size = max(abs(exact), mpmath.mpf(kind.tiny))
            unit = mpmath.mpf(2) ** (int(mpmath.floor(mpmath.log(size, 2)))) * kind.eps
            for found, result in zip(units, results, strict=True):
                found.append(float(abs(mpmath.mpf(result[place].item()) - exact) / unit))
    return [np.array(found) for found in units]


def error_rows(count: int, only: str) -> list[str]:
    chosen = {name: one for name, one in FUNCTIONS.items() if re.search(only, name)}
    rows = ["| function | float32: ours | torch | float64: ours | torch |", "|---|---|---|---|---|"]
    cells: dict[str, list[str]] = {name: [] for name in chosen}
    for dtype in (torch.float32, torch.float64):
        of_type = {name: one for name, one in taken(dtype).items() if name in chosen}
        run = portable([one.operator for one in of_type.values()], dtype)
        inputs = [numbers(one, count, dtype) for one in of_type.values()]
        for (name, one), x, got in zip(of_type.items(), inputs, run(inputs), strict=True):
            ours, torchs = errors(one, x, [got, one.operator(x)])
            cells[name] += [f"{ours.max():.3g}", f"{torchs.max():.3g}"]
        for name in chosen.keys() - of_type.keys():
            cells[name] += ["left to ATen", ""]
    return rows + [f"| `{name}` | {' | '.join(found)} |" for name, found in cells.items()]


def seconds(call: Callable[[], Any], least: float = 0.05) -> float:
    begin, runs = time.perf_counter(), 0
    while runs < 3 or time.perf_counter() - begin < least:
        call()
        runs += 1
    return (time.perf_counter() - begin) / runs


def speed_rows(only: str) -> list[str]:
    """Compares with the ATen node: best of several turns, one after the other."""
    rows = ["| function | " + " | ".join(f"{size:,}" for size in SIZES) + " |", "|---|---|---|---|"]
    for name, one in FUNCTIONS.items():
        if not re.search(only, name):
            continue
        example = (torch.rand(3),)
        open_size = ({0: "n"},)
        sessions = []
        for fallback in (("function",), ("aten",)):
            program = opgraft.torch.export(
                lambda x, one=one: one.operator(x),
                example,
                dynamic_shapes=open_size,
                verify=False,
                fallback=fallback,
                progress=False,
            )
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            data = program.model_proto.SerializeToString()
            allow = program.report.allow
            sessions.append(opgraft.InferenceSession(data, options, allow=allow))
        cells = []
        for size in SIZES:
            x = torch.empty(size).uniform_(*one.usual).numpy()
            feeds = [{session.get_inputs()[0].name: x} for session in sessions]
            best = [float("inf")] * 2
            for _ in range(5):
                for place, (session, feed) in enumerate(zip(sessions, feeds, strict=True)):
                    taken = seconds(lambda s=session, f=feed: s.run(None, f))
                    best[place] = min(best[place], taken)
            cells.append(f"{best[0] / best[1]:.2f}")
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a regular expression for the names")
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--numbers", type=int, default=300, help="in each interval")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.errors:
        print("\n".join(error_rows(options.numbers, options.only)))
    else:
        print("times of the function, over those of the ATen node:")
        speed_rows(options.only)


if __name__ == "__main__":
    main()
