"""BesselJ0 against torch's, microseconds on the CPU."""

from __future__ import annotations

import timeit

import torch
from onnx import parser

import opgraft


def on_cpu() -> None:
    x = torch.linspace(-4, 4, 100_000)
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "ai.opgraft": 1]>'
        "g (float[n] x) => (float[n] y) { y = ai.opgraft.BesselJ0 (x) }"
    )
    session = opgraft.InferenceSession(model)
    feed = {"x": x.numpy()}
    ours = timeit.timeit(lambda: session.run(None, feed), number=10) / 10
    theirs = timeit.timeit(lambda: torch.special.bessel_j0(x), number=10) / 10
    print(f"| BesselJ0, 100,000 floats | {ours * 1e6:,.1f} | torch {theirs * 1e6:,.1f} |")
