"""Corrects library functions that compute something different while they are traced."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.onnx.operators

from opgraft.torch import _private

_TRANSFORM = "torchvision.models.detection.transform"
_RESIZE = "_resize_image_and_masks"


@contextmanager
def corrected() -> Iterator[None]:
    """Corrects the functions in modules that are already imported."""
    module = sys.modules.get(_TRANSFORM)
    original = getattr(module, _RESIZE, None)
    if module is None or original is None:
        yield
        return
    setattr(module, _RESIZE, _resizing(original))
    try:
        yield
    finally:
        setattr(module, _RESIZE, original)


def _resizing(original: Callable[..., Any]) -> Callable[..., Any]:
    """torchvision's detection models compute the size of an image in double precision, but in
    single precision while they are traced. For one size in ten the image then lacks a row."""

    def resize(
        image: torch.Tensor,
        self_min_size: int,
        self_max_size: int,
        target: Any = None,
        fixed_size: Any = None,
    ) -> tuple[torch.Tensor, Any]:
        if not _private.is_tracing() or target is not None or fixed_size is not None:
            resized: tuple[torch.Tensor, Any] = original(
                image, self_min_size, self_max_size, target, fixed_size
            )
            return resized
        shape = torch.onnx.operators.shape_as_tensor(image)[-2:].to(torch.float64)
        # All are vectors, since torch's old exporter turns scalars into single precision.
        least, most = (
            torch.full((1,), float(one), dtype=torch.float64)
            for one in (self_min_size, self_max_size)
        )
        scale = torch.minimum(least / shape.amin(0, True), most / shape.amax(0, True))
        height, width = torch.floor(shape * scale).to(torch.int64).unbind()
        size: Any = (height, width)
        image = torch.nn.functional.interpolate(
            image[None], size=size, mode="bilinear", align_corners=False
        )[0]
        return image, target

    return resize
