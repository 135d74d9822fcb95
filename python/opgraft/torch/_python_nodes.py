"""The rung of Python nodes: operators that are not torch's own, run by torch in Python."""

from __future__ import annotations

from typing import Any

import torch

from opgraft.torch import _aten, _nodes, _private
from opgraft.torch._ladder import Graft

DOMAIN = "ai.opgraft.torch"
MODULE, CLASS = "opgraft.torch.operators", "TorchOperator"
_ADVICE = "a translation, an operator of yours or of a pack"


def takes(target: Any) -> bool:
    return isinstance(target, _private.OpOverload) and not _private.is_torchs_own(target)


def graft(node: torch.fx.Node) -> Graft | None:
    module = _private.defining_module(node.target)  # type: ignore[arg-type]

    def build(*args: Any, **kwargs: Any) -> Any:
        arguments = _nodes.inputs_of(node, args, kwargs)
        example = node.meta["val"]
        written = _aten.aten_node(node.target, *arguments, example)  # type: ignore[arg-type]
        attributes = {
            **written.attributes,
            "module": MODULE,
            "class_name": CLASS,
            "defined_in": module,
            "output_types": [one.onnx_type for one in written.outputs],
        }
        values = _nodes.append(
            DOMAIN, "PyOp", written.inputs, attributes, len(written.outputs), version=1
        )
        return _nodes.arrange(values, example)

    allow = (MODULE, module) if module else (MODULE,)
    return Graft("python", build, f"Python ({module or 'unknown module'})", _ADVICE, allow)
