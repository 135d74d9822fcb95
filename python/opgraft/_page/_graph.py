"""Turns a model into what the page draws: graphs, nodes, and the types of values."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from opgraft._page._shapes import infer
from opgraft._page._texts import attribute_text, shortened, tensor_text, type_text
from opgraft._page._who import Runners

_LONGEST_TRACE = 4000
_DEEPEST = 50  # graphs inside graphs


class Drawing:
    """The graphs of a model as plain values, in the form that page.js reads.

    Texts that many nodes share are in `texts`, once.
    """

    def __init__(self, model: Any, runners: Runners) -> None:
        self.graphs: list[dict[str, Any]] = []
        self.operators: list[dict[str, Any]] = []
        self.texts: list[str] = []
        self._text_numbers: dict[str, int] = {}
        self._operator_numbers: dict[tuple[str, str, str, str], int] = {}
        self._runners = runners
        #: Functions, by domain, name and overload: the numbers of their graphs.
        self._functions: dict[tuple[str, str, str], int] = {}
        self._imports = {one.domain: one.version for one in model.opset_import}
        #: By graph, the name, the operator and the index in the file of each node that is drawn.
        self.places: list[list[tuple[str, str, int]]] = []
        inferred = infer(model)
        # The bodies of functions are numbered first, since nodes refer to them.
        self._add_graph("the model")
        for function in model.functions:
            key = (function.domain, function.name, function.overload)
            title = f"function {function.domain}.{function.name}"
            self._functions.setdefault(key, self._add_graph(title))
        self._fill(0, model.graph, inferred.graph, 0)
        for function in model.functions:
            number = self._functions[function.domain, function.name, function.overload]
            if not self.graphs[number]["nodes"]:
                self._fill_function(number, function)

    def _add_graph(self, title: str) -> int:
        self.graphs.append(
            {"title": title, "in": [], "out": [], "nodes": [], "types": [], "constants": []}
        )
        self.places.append([])
        return len(self.graphs) - 1

    def _fill(self, number: int, graph: Any, inferred: Any, depth: int) -> None:
        made = self.graphs[number]
        constants = {one.name: tensor_text(one) for one in graph.initializer}
        constants |= {one.values.name: "a sparse tensor" for one in graph.sparse_initializer}
        made["in"] = [one.name for one in graph.input if one.name not in constants]
        made["out"] = [one.name for one in graph.output]
        types = _types_of(inferred) | {k: v for k, v in _types_of(graph).items() if v}
        self._add_nodes(number, graph.node, inferred.node, constants, depth)
        made["constants"] = [list(one) for one in constants.items()]
        made["types"] = [[k, v] for k, v in types.items() if v and k not in constants]

    def _fill_function(self, number: int, function: Any) -> None:
        made = self.graphs[number]
        made["in"], made["out"] = list(function.input), list(function.output)
        made["doc"] = shortened(function.doc_string)
        constants: dict[str, str] = {}
        self._add_nodes(number, function.node, function.node, constants, 0)
        made["constants"] = [list(one) for one in constants.items()]
        made["types"] = [[one.name, type_text(one.type)] for one in function.value_info]

    def _add_nodes(
        self,
        number: int,
        nodes: Iterable[Any],
        inferred: Iterable[Any],
        constants: dict[str, str],
        depth: int,
    ) -> None:
        """Adds all nodes except constants, which are shown where they are used."""
        for index, (node, known) in enumerate(zip(nodes, inferred, strict=False)):
            if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
                for name in node.output:
                    constants[name] = ", ".join(map(attribute_text, node.attribute))
                continue
            self.graphs[number]["nodes"].append(self._node(node, known, depth))
            self.places[number].append((node.name, node.op_type, index))

    def _node(self, node: Any, inferred: Any, depth: int) -> dict[str, Any]:
        title, kind, finding = self._runners.of(node)
        values: dict[str, Any] = {
            "op": self._operator(node, title),
            "name": node.name,
            "in": list(node.input),
            "out": list(node.output),
            "kind": kind,
        }
        if finding is not None:
            values["finding"] = finding
        attributes = [[one.name, attribute_text(one)] for one in node.attribute]
        if attributes:
            values["attributes"] = attributes
        if node.doc_string:
            values["doc"] = self._text(shortened(node.doc_string))
        inside = [*self._bodies(node, inferred, depth)]
        body = self._functions.get((node.domain, node.op_type, node.overload))
        if body is not None:
            inside.append(["", body])
        if inside:
            values["inside"] = inside
        values.update({key: self._text(text) for key, text in torch_facts(node).items()})
        return values

    def _bodies(self, node: Any, inferred: Any, depth: int) -> Iterable[list[Any]]:
        for at, attribute in enumerate(node.attribute):
            bodies = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
            if not bodies or depth >= _DEEPEST:
                continue
            twin = inferred.attribute[at] if at < len(inferred.attribute) else attribute
            twins = [twin.g] if twin.HasField("g") else list(twin.graphs)
            for body, known in zip(bodies, twins, strict=False):
                number = self._add_graph(f"{attribute.name} of '{node.name or node.op_type}'")
                self._fill(number, body, known, depth + 1)
                yield [attribute.name, number]

    def _text(self, text: str) -> int:
        if text not in self._text_numbers:
            self._text_numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._text_numbers[text]

    def _operator(self, node: Any, title: str) -> int:
        key = (node.domain, node.op_type, node.overload, title)
        if key not in self._operator_numbers:
            self._operator_numbers[key] = len(self.operators)
            self.operators.append({"title": title, "type": node.op_type, **self._schema(node)})
        return self._operator_numbers[key]

    def _schema(self, node: Any) -> dict[str, Any]:
        """The names of inputs and outputs, as the function or onnx's schema has them."""
        import onnx.defs

        body = self._functions.get((node.domain, node.op_type, node.overload))
        if body is not None:  # filled later, if it is there at all
            return {"body": body}
        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            schema = onnx.defs.get_schema(node.op_type, self._imports.get(node.domain, 1), domain)
        except Exception:  # onnx does not know it
            return {}
        repeated = onnx.defs.OpSchema.FormalParameterOption.Variadic
        return {
            "in": [one.name for one in schema.inputs],
            "out": [one.name for one in schema.outputs],
            "repeats": any(one.option == repeated for one in schema.inputs),
            "since": schema.since_version,
            "doc": _first_sentence(schema.doc or ""),
        }


def _types_of(graph: Any) -> dict[str, str]:
    values = [*graph.value_info, *graph.input, *graph.output]
    return {one.name: type_text(one.type) for one in values}


def _first_sentence(doc: str) -> str:
    paragraph = doc.strip().partition("\n\n")[0]
    return shortened(" ".join(paragraph.split()), 300)


def torch_facts(node: Any) -> dict[str, str]:
    """What torch's exporter has written into a node: where it comes from in the torch model."""
    given = {one.key: one.value for one in node.metadata_props}
    facts = {}
    trace = given.get("pkg.torch.onnx.stack_trace", "")
    if trace.strip():
        facts["trace"] = trace.strip()[-_LONGEST_TRACE:]
    scopes = _strings(given.get("pkg.torch.onnx.name_scopes", ""))
    if len(scopes) > 1 and scopes[-2]:
        facts["scope"] = scopes[-2]
    classes = _strings(given.get("pkg.torch.onnx.class_hierarchy", ""))
    if classes and classes[-1].count(".") >= 2:
        facts["torch"] = _torch_name(classes[-1])
    return facts


def _torch_name(target: str) -> str:
    """ "aten::median.dim" for "aten.median.dim", as in the report of an export."""
    namespace, name, overload = target.split(".", 2)
    return f"{namespace}::{name}" + ("" if overload == "default" else f".{overload}")


def _strings(text: str) -> list[str]:
    """A list of strings as Python writes it; empty if it is none."""
    if len(text) > _LONGEST_TRACE:
        return []
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return []
    is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
    return value if is_list else []
