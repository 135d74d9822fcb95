"""Converts a model that is newer than the runtime, with onnx's own version converter.

The converter is not trusted: most of its steps leave a node unchanged and check only types, and it
drops functions and sparse weights. So only nodes are taken from its result, nodes that no opset
changed must come back unchanged, and the result is labelled with the original opset and checked
against the table of src/model/opset_changes.cc again. A model that passes means the same in both
opsets. The converter runs in a separate process, because some models crash it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from opgraft._base._signals import signal_name
from opgraft._run import _converter

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


class NotConvertedError(Exception):
    """The converter cannot convert the model; the message says why."""


def convert(original: bytes, limit: int) -> bytes:
    """Returns the model with the converter's nodes for opset `limit`, but with its own opset."""
    try:
        import onnx
    except ImportError as error:
        raise NotConvertedError("onnx, which might convert it, is not installed") from error
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
    except Exception as error:  # whatever it is, it is reported as ours
        raise NotConvertedError(f"onnx.version_converter: {_first_line(error)}") from error
    _check_kept(model.graph, converted.graph, _is_touched_between(limit, opset))
    known = {tensor.name for tensor in model.graph.initializer}
    model.graph.initializer.extend(t for t in converted.graph.initializer if t.name not in known)
    del model.graph.node[:]
    model.graph.node.extend(converted.graph.node)
    return bytes(model.SerializeToString())


def _run_converter(model: bytes, limit: int) -> bytes:
    """Returns the converted model, without the weights that `model` has."""
    python = sys.executable or ""
    # If Python is embedded in a program, sys.executable may be that program.
    if getattr(sys, "frozen", False) or not os.path.basename(python).startswith("python"):
        raise NotConvertedError(
            "onnx.version_converter, which might convert it, needs a python command to run, but "
            f"sys.executable is '{python}'"
        )
    path = [entry for entry in sys.path if isinstance(entry, str)]
    command = [python, _converter.__file__, str(limit), *path]
    done = subprocess.run(command, input=model, capture_output=True, check=False)
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.decode(errors="replace").strip().splitlines() or ["there is no message"]
    if done.returncode == _converter.REFUSED:
        raise NotConvertedError(f"onnx.version_converter: {said[-1]}")
    if done.returncode < 0:
        raise NotConvertedError(f"onnx.version_converter crashed: {signal_name(-done.returncode)}")
    raise NotConvertedError(f"onnx.version_converter could not be run: {said[-1]}")


def _with_all_imports(model: ModelProto) -> ModelProto:
    """Returns a copy that imports every domain of its nodes, which the converter requires."""
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
    """Raises if a node that needs no conversion is missing or has changed."""
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
        for values in ("input", "output"):  # names only: the converter may have inferred shapes
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
    """Returns a message's bytes without its documentation, which the converter drops."""
    copy = type(message)()
    copy.CopyFrom(message)  # type: ignore[attr-defined]
    if hasattr(copy, "doc_string"):
        copy.ClearField("doc_string")  # type: ignore[attr-defined]
    return bytes(copy.SerializeToString(deterministic=True))  # type: ignore[attr-defined]


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
