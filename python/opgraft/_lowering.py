"""A model that is newer than the runtime, through onnx's own version converter.

The converter is a second opinion, not an authority: most of its steps leave a node as it is and
look at types alone, and it drops functions and sparse weights. So only nodes are taken from it,
those that no opset touched must come back as they were, and what it gives is labelled with the
original opset and put before the table of src/model/opset_changes.cc again. What stands after that
means the same in both opsets. There are models that crash it, so it has a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from opgraft import _converter
from opgraft._signals import signal_name

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


class NotConvertedError(Exception):
    """The converter does not help; the text says why."""


def convert(original: bytes, limit: int) -> bytes:
    """The model with the nodes that the converter gives for `limit`, still of its own opset."""
    try:
        import onnx
    except ImportError as error:
        raise NotConvertedError("onnx is not installed, and might convert it") from error
    try:
        model = onnx.ModelProto.FromString(original)
        opset = max(i.version for i in model.opset_import if i.domain in ("", "ai.onnx"))
        if opset <= limit:
            raise NotConvertedError("there is nothing to convert")
        converted = onnx.ModelProto.FromString(
            _run_converter(_with_all_imports(model).SerializeToString(), limit)
        )
    except NotConvertedError:
        raise
    except Exception as error:  # whatever the model is, the error is ours to tell
        raise NotConvertedError(f"onnx.version_converter: {_first_line(error)}") from error
    _check_kept(model.graph, converted.graph, _is_touched_between(limit, opset))
    known = {tensor.name for tensor in model.graph.initializer}
    model.graph.initializer.extend(t for t in converted.graph.initializer if t.name not in known)
    del model.graph.node[:]
    model.graph.node.extend(converted.graph.node)
    return bytes(model.SerializeToString())


def _run_converter(model: bytes, limit: int) -> bytes:
    """The converted model, without the weights that `model` has."""
    python = sys.executable or ""
    # The program itself, perhaps, where Python is a part of one.
    if getattr(sys, "frozen", False) or not os.path.basename(python).startswith("python"):
        raise NotConvertedError(
            "onnx.version_converter, which might convert it, needs a python command to run in, but "
            f"sys.executable is '{python}'"
        )
    path = [entry for entry in sys.path if isinstance(entry, str)]
    command = [python, _converter.__file__, str(limit), *path]
    done = subprocess.run(command, input=model, capture_output=True, check=False)
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing is known"]
    if done.returncode == _converter.REFUSED:
        raise NotConvertedError(f"onnx.version_converter: {said[-1]}")
    if done.returncode < 0:
        raise NotConvertedError(f"onnx.version_converter crashed: {signal_name(-done.returncode)}")
    raise NotConvertedError(f"onnx.version_converter could not be run: {said[-1]}")


def _with_all_imports(model: ModelProto) -> ModelProto:
    """A copy that imports every domain of its nodes: the converter wants that, PyOps do without."""
    copy = type(model)()
    copy.CopyFrom(model)
    domains = {i.domain for i in model.opset_import} | {"", "ai.onnx"}

    def add(graph: GraphProto) -> None:
        for node in graph.node:
            if node.domain not in domains:
                domains.add(node.domain)
                copy.opset_import.add(domain=node.domain, version=1)
            for inner in _graphs(node).values():
                add(inner)

    add(model.graph)
    return copy


def _is_touched_between(older: int, newer: int) -> Callable[[NodeProto], bool]:
    from onnx import defs

    def is_touched(node: NodeProto) -> bool:
        if node.domain not in ("", "ai.onnx"):
            return False
        if not defs.has(node.op_type, older) or not defs.has(node.op_type, newer):
            return True
        return bool(
            defs.get_schema(node.op_type, older).since_version
            != defs.get_schema(node.op_type, newer).since_version
        )

    return is_touched


def _check_kept(
    original: GraphProto, converted: GraphProto, is_touched: Callable[[NodeProto], bool]
) -> None:
    """Raises where something is gone or different that the conversion has no business with."""
    left = iter(converted.node)
    for node in original.node:
        if is_touched(node) and not _graphs(node):
            continue
        if not any(_is_same(node, other, is_touched) for other in left):
            what = f"'{node.name}' ({node.op_type})" if node.name else node.op_type
            raise NotConvertedError(f"onnx.version_converter changed the node {what}")


def _is_same(node: NodeProto, other: NodeProto, is_touched: Callable[[NodeProto], bool]) -> bool:
    if _head(node) != _head(other):
        return False
    graphs, others = _graphs(node), _graphs(other)
    if graphs.keys() != others.keys() or _plain_attributes(node) != _plain_attributes(other):
        return False
    for name, graph in graphs.items():
        inner = others[name]
        for values in ("input", "output"):  # their shapes may be known better
            if [v.name for v in getattr(graph, values)] != [v.name for v in getattr(inner, values)]:
                return False
        for weights in ("initializer", "sparse_initializer"):
            kept = [_bare(w) for w in getattr(inner, weights)]
            if any(_bare(w) not in kept for w in getattr(graph, weights)):
                return False
        _check_kept(graph, inner, is_touched)
    return True


def _head(node: NodeProto) -> tuple[object, ...]:
    return node.op_type, node.domain, node.name, list(node.input), list(node.output)


def _graphs(node: NodeProto) -> dict[str, GraphProto]:
    return {a.name: a.g for a in node.attribute if a.HasField("g")}


def _plain_attributes(node: NodeProto) -> dict[str, bytes]:
    return {a.name: _bare(a) for a in node.attribute if not a.HasField("g")}


def _bare(message: object) -> bytes:
    """A message's bytes, but for its documentation, which the converter drops."""
    copy = type(message)()
    copy.CopyFrom(message)  # type: ignore[attr-defined]
    if hasattr(copy, "doc_string"):
        copy.ClearField("doc_string")  # type: ignore[attr-defined]
    return bytes(copy.SerializeToString(deterministic=True))  # type: ignore[attr-defined]


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
