"""Torch operators as functions of standard ONNX operators, which need nothing installed."""

from __future__ import annotations

from typing import Any

import torch

from opgraft.torch._ladder import Graft


def takes(target: Any) -> bool:
    return False


def graft(node: torch.fx.Node) -> Graft | None:
    return None
