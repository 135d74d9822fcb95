"""The rung of packs: operators in C++ that declare a torch operator that they can replace.

It uses the packs that are loaded, and the packs that come with Opgraft, which sessions find. In a
domain of ONNX Runtime, sessions run the operators of packs only if they prefer them. So an operator
of a pack that is not loaded is used there only if ONNX Runtime itself has a kernel for it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import onnx
import onnxruntime
import torch

from opgraft import _pyop
from opgraft.torch import _private
from opgraft.torch._graphs._graph import operator_name
from opgraft.torch._rungs import _stand_in, _translation
from opgraft.torch._rungs._ladder import Graft
from opgraft.torch._rungs._stand_in import StandIn


def takes(target: Any) -> bool:
    return isinstance(target, _private.OpOverload) and any(_candidates(target))


def graft(node: torch.fx.Node) -> Graft | None:
    for one, is_loaded in _candidates(node.target):
        native, full_name = one.native, one.schema.full_name
        assert native is not None
        if not _fits(native, node):
            continue
        build = _translation.answer(one, node.target)
        if is_loaded or native.domain not in _pyop.RUNTIME_DOMAINS:
            return Graft("pack", build, full_name, packs=(native.pack,))
        if _runtime_has(one, node):
            return Graft("pack", build, f"{full_name} (of ONNX Runtime)")
    return None


def _candidates(target: Any) -> Iterator[tuple[StandIn, bool]]:
    """Yields the operators that can replace a torch operator, and whether the pack is loaded."""
    name = operator_name(target)
    loaded = [one for one in _stand_in.known() if one.native is not None]
    for one in loaded:
        if one.calls_of(name):
            yield one, True
    names = {one.schema.full_name for one in loaded}
    for one in _stand_in.shipped():
        if one.schema.full_name not in names and one.calls_of(name):
            yield one, False


def _fits(native: _pyop.Schema, node: torch.fx.Node) -> bool:
    """Whether the operator of the pack takes the types of the tensors of the node."""
    examples = [one.meta.get("val") for one in node.all_input_nodes]
    tensors = [one for one in examples if isinstance(one, torch.Tensor)]
    for parameter, tensor in zip(native.inputs, tensors, strict=False):
        allowed = native.types[parameter.type].allowed
        if tensor.is_complex() or (allowed and _private.onnx_type(tensor.dtype) not in allowed):
            return False
    return True


def _runtime_has(one: StandIn, node: torch.fx.Node) -> bool:
    """Whether the installed ONNX Runtime has its own kernel for a node."""
    target: Any = node.target
    arguments, _ = _private.schema_of(target)
    given = dict(zip((each.name for each in arguments), node.args, strict=False)) | node.kwargs
    for call in one.calls_of(operator_name(target)):
        try:
            inputs, _ = _stand_in.arrange(one.schema, call, arguments, given)
        except _stand_in.UnlikeError:
            continue
        types = tuple(_type_of(value) for value in inputs)
        return _has_kernel(one.schema.full_name, one.schema.core.since_version, types)
    return False


def _type_of(value: Any) -> int:
    """Returns the number of the ONNX type; 0 for an input that is left out."""
    example = value.meta.get("val") if isinstance(value, torch.fx.Node) else value
    if isinstance(example, torch.Tensor):
        return _private.onnx_type(example.dtype)
    return 0 if example is None else int(onnx.TensorProto.INT64)


@functools.cache
def _has_kernel(full_name: str, version: int, types: tuple[int, ...]) -> bool:
    """Tries to make a session with one such node: no list covers all versions of the runtime."""
    domain, _, name = full_name.partition("::")
    inputs = [f"x{place}" if type_ else "" for place, type_ in enumerate(types)]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(name, inputs, ["y"], domain=domain)],
        "one_node",
        [
            onnx.helper.make_tensor_value_info(x, type_, None)
            for x, type_ in zip(inputs, types, strict=True)
            if type_
        ],
        [onnx.ValueInfoProto(name="y")],
    )
    opsets = [onnx.helper.make_opsetid(domain, version), onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=opsets)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception:  # any error means that there is none
        return False
    return True
