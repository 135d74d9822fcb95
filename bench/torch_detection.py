"""Exports torchvision's detection models by a trace, with an image of open size, and compares each
with torch on three images of three sizes.

Weights are random. Those of the heads are stretched, so that scores are far apart.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import torch
from torchvision.models import detection, list_models

import opgraft
import opgraft.torch
from opgraft.torch import _compare, _ties

#: Those that decide by data, and why: `specialise` is wanted.
DECIDING = "rcnn"  # if box_sum > 0, in the decoding of boxes
SIZES = ((48, 64), (56, 80), (40, 88))
_HEADS = ("cls_score", "cls_logits", "bbox_ctrness")


def image(seed: int, height: int = 48, width: int = 64) -> torch.Tensor:
    return torch.rand(3, height, width, generator=torch.Generator().manual_seed(seed))


def build(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    options: dict[str, Any] = {"weights": None, "weights_backbone": None, "num_classes": 4}
    if not name.startswith("ssd"):
        options |= {"min_size": 64, "max_size": 96}
    if DECIDING in name:
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
    """Gives the norms the statistics of an image: random weights let numbers grow otherwise."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
            module.reset_running_stats()
            module.train()
    model([image(2), image(2).flip(2)])
    model.eval()


def _heads(model: Any) -> list[Any]:
    """The layers that give scores."""
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
    """Has a head give scores with a deviation of 2, before the sigmoid."""
    torch.nn.init.normal_(head.weight)
    torch.nn.init.normal_(head.bias, std=0.3)
    seen: list[torch.Tensor] = []
    hook = head.register_forward_hook(lambda _, __, given: seen.append(given.flatten()))
    model([image(2)])
    hook.remove()
    head.weight.mul_(2 / torch.cat(seen).std().clamp(min=1e-6))


def results(model: torch.nn.Module, one: torch.Tensor) -> list[torch.Tensor]:
    with torch.no_grad():
        return list(model([one])[0].values())


def compare(model: torch.nn.Module, program: Any, one: torch.Tensor) -> tuple[str, str]:
    """What is wrong, and how it was compared."""
    return _ties.difference(
        results(model, one),
        program([one]),
        lambda times: results(model, _compare.disturb(one, times)),
        roundings=100,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list_models(detection))
    for name in parser.parse_args().names:
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
                    specialise=DECIDING in name,
                )
        except opgraft.Error as error:
            print(f"{name}: refused: {error}", flush=True)
            continue
        print(f"{name}: exported in {time.perf_counter() - begin:.0f} s")
        print(f"  verified: {'; '.join(program.report.verified)}")
        for line in [*program.report.specialised, *program.report.notes]:
            print(f"  {line}")
        for seed, size in enumerate(SIZES, start=3):
            wrong, how = compare(model, program, image(seed, *size))
            print(f"  image {size}: {wrong or 'right'} {how}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
