"""Says who runs a node, from the doctor's findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opgraft._base._errors import Error
from opgraft._doctor import _survey
from opgraft._doctor._doctor_report import Finding

#: Who may run a node: a name for the page's colours, what the legend says, what it means.
KINDS = (
    ("runtime", "ONNX Runtime", "ONNX Runtime has a kernel for it; nothing else is needed."),
    ("function", "function", "A function of the model: the nodes of its body run in its place."),
    ("pack", "pack", "A native kernel of a pack runs it; the pack must be there."),
    ("library", "other library", "A custom operator library that is not Opgraft's runs it."),
    ("libtorch", "libtorch", "libtorch runs it, without Python; libtorch must be there."),
    ("python", "Python", "A Python function or class runs it; its module must be there."),
    ("missing", "missing", "It cannot run yet: something is missing, or not allowed."),
)
_NUMBERS = {name: number for number, (name, _, _) in enumerate(KINDS)}
_LIBRARIES = ("onnxruntime-extensions", "a library of --library")
_LONGEST = 2000  # bytes of an attribute that can name an operator


class Runners:
    """Finds the kind and the finding of each node."""

    def __init__(self, findings: Sequence[Finding], runtime: str, imports: Sequence[Any]) -> None:
        self._runtime = runtime
        self._imports = imports
        self._titles: dict[bytes, tuple[str, bool]] = {}
        self._findings: dict[str, list[int]] = {}
        self.findings = findings
        for number, one in enumerate(findings):
            self._findings.setdefault(one.operator, []).append(number)

    def of(self, node: Any) -> tuple[str, int, int | None]:
        """Returns the operator's name in the report, the number of its kind, and its finding's."""
        title, is_referring = self._title(node)
        numbers = self._findings.get("PyOp" if is_referring else title, [])
        named = [
            number
            for number in numbers
            if any(one["name"] == node.name for one in self.findings[number].nodes)
        ]
        number = next(iter(named or numbers), None)
        if number is None:
            return title, _NUMBERS["python" if is_referring else "runtime"], None
        return title, _NUMBERS[kind_of(self.findings[number], node.name)], number

    def _title(self, node: Any) -> tuple[str, bool]:
        """The operator's name in the survey, which is made for a model of only this node."""
        import onnx

        model = onnx.ModelProto(ir_version=8, opset_import=self._imports)
        alone = model.graph.node.add(op_type=node.op_type, domain=node.domain)
        for attribute in node.attribute:
            if attribute.type in (onnx.AttributeProto.STRING, onnx.AttributeProto.UNDEFINED) and (
                len(attribute.s) < _LONGEST
            ):
                alone.attribute.append(attribute)
        key = alone.SerializeToString()
        if key not in self._titles:
            self._titles[key] = self._survey(model, node)
        return self._titles[key]

    def _survey(self, model: Any, node: Any) -> tuple[str, bool]:
        from opgraft import _pyop

        try:
            values = _pyop.survey(model.SerializeToString(), "the node", self._runtime)
        except Error:
            return f"{node.domain or 'ai.onnx'}::{node.op_type}", False
        operator = _survey.from_values(values).operators[0]
        return operator.title, operator.is_referring


def kind_of(finding: Finding, node: str | None = None) -> str:
    """The name of the kind in KINDS; of one node if only some have the problem."""
    has_it = finding.problem is not None and (
        node is None
        or not finding.problem_nodes
        or any(one["name"] == node for one in finding.problem_nodes)
    )
    if has_it or finding.run_by == "nobody":
        return "missing"
    if finding.run_by == "function of the model":
        return "function"
    if finding.run_by.partition(" (")[0] == "ONNX Runtime":
        return "runtime"
    if finding.pack is not None:
        return "pack"
    if finding.run_by == "libtorch":
        return "libtorch"
    return "library" if finding.run_by in _LIBRARIES else "python"
