"""The rung of Python nodes: operators that are not torch's own, run by torch in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opgraft.torch import _private
from opgraft.torch._rungs import _aten, _nodes
from opgraft.torch._rungs._ladder import Graft

DOMAIN = "ai.opgraft.torch"
MODULE, CLASS = "opgraft.torch.operators", "TorchOperator"
_ADVICE = "a translation, an operator of yours or of a pack"


def takes(target: Any) -> bool:
    if _private.is_functionalized(target):
        return True
    return isinstance(target, _private.OpOverload) and not _private.is_torchs_own(target)


def graft(node: torch.fx.Node) -> Graft | None:
    if _private.is_functionalized(node.target):
        return _graft_changing(node)
    target: Any = node.target
    module = _private.defining_module(target)

    def build(*args: Any, **kwargs: Any) -> Any:
        example = node.meta["val"]
        written = _aten.aten_node(target, *_nodes.inputs_of(node, args, kwargs), example)
        return _nodes.arrange(_append(written, module), example)

    return _made(build, target, module)


def _graft_changing(node: torch.fx.Node) -> Graft | None:
    """Grafts an operator that writes to some of its arguments: it gets copies of these, and the
    node returns them after the results of the operator."""
    called: Any = node.meta.get(_private.CALLED)
    if called is None or _private.is_torchs_own(called):
        return None
    changed = _private.written_arguments(called)
    own = {name for name in node.kwargs if not name.startswith("_")}
    places: dict[str, Any] = {name: node.kwargs.get(f"_{name}_base_index") for name in changed}
    # If an argument is a view of another tensor, there are more entries: not supported here.
    if None in places.values() or len(node.kwargs) != len(own) + len(changed) + 1:
        return None
    changed.sort(key=lambda name: int(places[name]))
    module = _private.defining_module(called)

    def build(*args: Any, **kwargs: Any) -> Any:
        _, named = _nodes.inputs_of(node, args, kwargs)
        given = {name: named[name] for name in own}
        given |= {name: named["_all_bases"][place] for name, place in places.items()}
        example: Any = node.meta["val"]
        results = [one for one in example[: len(example) - len(changed)] if one is not None]
        written = _aten.aten_node(called, (), given, results[0] if len(results) == 1 else results)
        values = _append(written, module, changed, example[len(example) - len(changed) :])
        return _nodes.arrange(values, example)

    return _made(build, called, module)


def _append(
    written: _aten.AtenNode,
    module: str,
    changed: Sequence[str] = (),
    changed_examples: Sequence[torch.Tensor] = (),
) -> list[Any]:
    outputs = [*written.outputs]
    outputs += [_aten.Output(str(one.dtype).removeprefix("torch.")) for one in changed_examples]
    attributes: dict[str, Any] = {
        **written.attributes,
        "module": MODULE,
        "class_name": CLASS,
        "defined_in": module,
        "output_types": [one.onnx_type for one in outputs],
    }
    if changed:
        attributes["changes"] = list(changed)
    return _nodes.append(DOMAIN, "PyOp", written.inputs, attributes, len(outputs), version=1)


def _made(build: Any, target: _private.OpOverload, module: str) -> Graft:
    allow = (MODULE, module or _private.name_of(target)[0])
    return Graft("python", build, f"Python ({module or 'unknown module'})", _ADVICE, allow)
