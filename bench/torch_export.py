"""The time of an export: opgraft.torch.export without verification against torch.onnx.export.

The models are ones that both export, with random weights; the two exporters in turn, the best of
several runs each, in a process that has exported before. The goal is a ratio of at most 1.0.

Then the time of verification, without and with the trials of operators on hard numbers: in a
process that has not tried them yet, and in one that has. The goal is a ratio of at most 1.3.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import opgraft.torch
from opgraft.torch._export import _export
from opgraft.torch._verify import _probe, _verify

ROUNDS = 5
VERIFICATIONS = 20


class Block(nn.Module):
    """Two convolutions with a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.around = nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.around(x))


class ResNet(nn.Module):
    """A small network with the structure of ResNet-18."""

    def __init__(self) -> None:
        super().__init__()
        widths = [(16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)]
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 7, 2, 3, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            *(Block(*width) for width in widths),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 10),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layers(x)
        return result


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(32, 64, num_layers=2, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.lstm(x)[0][:, -1])
        return result


def models() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return {
        "ResNet-like": (ResNet().eval(), (torch.rand(1, 3, 64, 64),)),
        "transformer encoder": (
            nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval(),
            (torch.rand(2, 16, 64),),
        ),
        "LSTM": (Recurrent().eval(), (torch.rand(2, 12, 32),)),
    }


def seconds(export: Callable[..., Any], model: nn.Module, args: tuple[Any, ...]) -> float:
    begin = time.perf_counter()
    export(model, args)
    return time.perf_counter() - begin


def by_torch(model: nn.Module, args: tuple[Any, ...]) -> None:
    torch.onnx.export(model, args, dynamo=True, verbose=False)


def by_opgraft(model: nn.Module, args: tuple[Any, ...]) -> None:
    opgraft.torch.export(model, args, verify=False, progress=False)


class Activations(nn.Module):
    """Consists almost entirely of operators that verification tries on hard numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.gelu(x) + torch.tanh(x) * nn.functional.softplus(x)
        return torch.logsumexp(y.softmax(-1) - x.exp().log1p(), -1)


def verification() -> None:
    """Prints the processor time of verification, which other programs do not affect. The same
    program is verified repeatedly, in the three ways in turn."""
    trying, apart, verified = (
        _verify.probe,
        _verify.probe_decompositions,
        _export._Export._verified,
    )
    times: dict[str, list[float]] = {}

    def timed(export: Any, captured: Any, dispatcher: Any, translated: Any, *rest: Any) -> Any:
        for _ in range(VERIFICATIONS):
            for way, found in times.items():
                is_tried = way != "without"
                _verify.probe = trying if is_tried else lambda *_: _probe.Probed()
                _verify.probe_decompositions = apart if is_tried else lambda *_: None
                if way == "first":
                    _probe.forget()
                rest[0].release()
                begin = time.process_time()
                result = verified(export, captured, dispatcher, translated, *rest)
                found.append(time.process_time() - begin)
        return result

    _export._Export._verified = timed  # type: ignore[method-assign]
    titles = ["ms of verification", "without", "first time", "known", "ratio", "ratio"]
    print("\n{:24} {:>8} {:>10} {:>8} {:>6} {:>6}".format(*titles))
    others = {"activations": (Activations(), (torch.rand(8, 32),))}
    for name, (model, args) in (models() | others).items():
        times |= {"without": [], "first": [], "known": []}
        opgraft.torch.export(model, args, progress=False)
        without, new, known = (1000 * min(found[1:]) for found in times.values())
        print(
            f"{name:24} {without:8.1f} {new:10.1f} {known:8.1f} {new / without:6.2f} "
            f"{known / without:6.2f}"
        )


def exports() -> None:
    print(f"{'seconds for an export':24} {'torch.onnx.export':>18} {'opgraft':>8} {'ratio':>6}")
    for name, (model, args) in models().items():
        times: dict[str, list[float]] = {"torch": [], "opgraft": []}
        for _ in range(ROUNDS + 1):
            times["torch"].append(seconds(by_torch, model, args))
            times["opgraft"].append(seconds(by_opgraft, model, args))
        theirs, ours = min(times["torch"][1:]), min(times["opgraft"][1:])
        print(f"{name:24} {theirs:18.2f} {ours:8.2f} {ours / theirs:6.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verification", action="store_true", help="only print the second table")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    if not options.verification:
        exports()
    verification()


if __name__ == "__main__":
    main()
