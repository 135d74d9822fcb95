"""Exports torchvision's detection models by a trace, with images of dynamic size, compares each
with torch on three images of three sizes, and prints a table.

Weights are random. Norms and heads are calibrated on all images that are used, so that scores stay
away from 0 and 1: a sigmoid of 20 is 1.0 in single precision, and if many scores are 1.0, the order
of the rows is undefined.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torchvision.models import detection, list_models

import opgraft
import opgraft.torch
from opgraft.torch._verify import _rounding, _ties

SIZES = ((48, 64), (56, 80), (40, 88))
_RCNN = "rcnn"
_HEADS = ("cls_score", "cls_logits", "bbox_ctrness")
#: How far scores may be from their mean, before the sigmoid.
_MOST = 4.0


def image(seed: int, height: int = 48, width: int = 64) -> torch.Tensor:
    """Returns a smooth image: in noise, each rounding of a coordinate would matter."""
    random = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, 3, 4, 5, generator=random)
    return torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")[0].clamp(0, 1)


def images() -> list[torch.Tensor]:
    """Returns all images that a model is run with: the example, the variants that verification
    makes of it, and those that are compared in the end."""
    example = image(2)
    others = [image(seed, *size) for seed, size in enumerate(SIZES, start=3)]
    return [example, example.flip((0, 1, 2)), -example, *others]


def build(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    options: dict[str, Any] = {"weights": None, "weights_backbone": None, "num_classes": 4}
    if not name.startswith("ssd"):
        options |= {"min_size": 64, "max_size": 96}
    if _RCNN in name:
        options |= {"rpn_pre_nms_top_n_test": 40, "rpn_post_nms_top_n_test": 20}
        options |= {"box_detections_per_img": 10}
    else:
        options |= {"topk_candidates": 30, "detections_per_img": 20}
    model: torch.nn.Module = getattr(detection, name)(**options).eval()
    _settle(model)
    for head in _heads(model):
        _stretch(model, head)
    return model


@torch.no_grad()
def _settle(model: torch.nn.Module) -> None:
    """Gives the norms the statistics of the images: otherwise numbers grow with random weights."""
    norms = [one for one in model.modules() if isinstance(one, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None
        norm.reset_running_stats()
        norm.train()
    model(images())
    model.eval()


def _heads(model: Any) -> list[Any]:
    """Returns the layers that compute scores."""
    lists = getattr(
        getattr(getattr(model, "head", None), "classification_head", None), "module_list", ()
    )
    if lists:
        return [[x for x in one.modules() if isinstance(x, torch.nn.Conv2d)][-1] for one in lists]
    layers = (torch.nn.Linear, torch.nn.Conv2d)
    named = model.named_modules()
    return [x for name, x in named if isinstance(x, layers) and any(one in name for one in _HEADS)]


@torch.no_grad()
def _stretch(model: torch.nn.Module, head: Any) -> None:
    """Scales a head so that its scores have a deviation of 1 before the sigmoid, and none
    saturates."""
    torch.nn.init.normal_(head.weight)
    torch.nn.init.zeros_(head.bias)
    seen: list[torch.Tensor] = []
    hook = head.register_forward_hook(lambda _, __, given: seen.append(given.flatten()))
    for one in images():
        model([one])
    hook.remove()
    scores = torch.cat(seen)
    far = (scores - scores.mean()).abs().max().clamp(min=1e-6)
    scale = min(float(1 / scores.std().clamp(min=1e-6)), float(_MOST / far))
    head.weight.mul_(scale)
    head.bias.fill_(-scale * float(scores.mean()))
    head.bias.add_(torch.randn(head.bias.shape) * 0.3)


def results(model: torch.nn.Module, one: torch.Tensor) -> list[torch.Tensor]:
    with torch.no_grad():
        return list(model([one])[0].values())


def compare(model: torch.nn.Module, program: Any, one: torch.Tensor) -> tuple[str, str]:
    """Returns what is wrong, and how it was compared."""
    return _ties.difference(
        results(model, one),
        program([one]),
        lambda times: results(model, _rounding.disturb(one, times)),
        roundings=100,
    )


def measure(name: str) -> Sequence[str]:
    """Returns a row of the table: the model, how many images are right, and the conditions under
    which the export holds."""
    model = build(name)
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = opgraft.torch.export(
                model,
                ([image(2)],),
                dynamic_shapes=([{1: "height", 2: "width"}],),
                dynamo=False,
                specialise=True,  # only used if necessary
            )
    except opgraft.Error as error:
        print(f"{name}: refused: {error}", flush=True)
        return name, "refused", "", ""
    print(f"{name}: exported in {time.perf_counter() - begin:.0f} s")
    print(f"  verified: {'; '.join(program.report.verified)}")
    for line in [*program.report.specialised, *program.report.notes]:
        print(f"  {line}")
    right = 0
    for seed, size in enumerate(SIZES, start=3):
        one = image(seed, *size)
        wrong, how = compare(model, program, one)
        right += not wrong
        rows = len(results(model, one)[0])
        print(f"  image {size}, {rows} rows: {wrong or 'right'} {how}".rstrip(), flush=True)
    where = [line.partition("holds where ")[2] for line in program.report.specialised]
    differs = [one for one in program.report.notes if "differs" in one]
    return name, f"{right} of {len(SIZES)}", "; ".join(where), "; ".join(differs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list_models(detection))
    rows = [measure(name) for name in parser.parse_args().names]
    print("\n| model | images right | holds where | differs |\n|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
