"""The report of an export: what each torch operator became, and what would make it portable."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from opgraft._pyop import RUNTIME_DOMAINS
from opgraft._terminal._document import Line, Table
from opgraft._terminal._screen import fitted
from opgraft.torch._graphs._graph import operator_name
from opgraft.torch._private import CALLED
from opgraft.torch._program._dispatch import STANDARD, USER, Choice, Translated
from opgraft.torch._rungs._ladder import KINDS

_ORDER = (USER, STANDARD, *KINDS)
#: What a kind is called in the table.
_NAMES = {
    USER: "your translation",
    "operator": "your operator",
    STANDARD: "ONNX",
    "function": "ONNX (Opgraft)",
    "pack": "pack",
    "aten": "ATen node",
    "python": "Python node",
}
#: A note of the ways that have whole programs alone to compare.
UNTRIED = "its operators were not tried alone, at numbers that the examples do not have"


@dataclass
class Row:
    """One torch operator, and one thing that it became."""

    operator: str
    count: int
    #: "standard", "user" (by a translation of yours), "operator" (of yours), "function", "pack",
    #: "aten" or "python".
    kind: str
    #: The operators of ONNX, the pack's, or the module.
    became: str
    #: What the model calls, where the operator is a part of that.
    part_of: str = ""
    #: What would make it portable; empty where it is.
    advice: str = ""
    #: Why it does not stand on a better rung: what it had there raised, or gave a wrong result.
    because: str = ""
    #: The operators among these, "domain::Name", that ONNX Runtime itself has not.
    foreign: tuple[str, ...] = ()

    @property
    def is_portable(self) -> bool:
        """Whether plain ONNX Runtime runs it, with nothing else installed."""
        return not self.foreign


@dataclass
class Report:
    """What an export did; `print(report)` shows it as a table, `to_dict` and `to_json` give it to
    programs.

    >>> report = opgraft.torch.export(torch.median, (torch.ones(3),)).report
    >>> [(row.operator, row.kind) for row in report.rows]
    [('aten::median', 'aten')]
    """

    rows: list[Row] = field(default_factory=list)
    #: How the model was captured: "non-strict", "strict", "draft", "traced",
    #: "torch.onnx.export" (by torch alone), or "given".
    captured: str = ""
    #: What sizes and what data the capture holds for.
    specialised: list[str] = field(default_factory=list)
    #: Whether operators of the model are random. What these give is compared by type and shape.
    is_random: bool = False
    #: What was compared with torch, and agreed; empty where verification was not asked for, or
    #: found a difference that it could not fix, of which a note tells.
    verified: list[str] = field(default_factory=list)
    #: What the model writes in a call, and the ONNX model does not keep.
    state: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: By operator, what NaN and infinities become, where torch makes something else of them.
    not_numbers: list[str] = field(default_factory=list)
    #: By operator, for what extreme numbers it differs from torch.
    differs: list[str] = field(default_factory=list)
    #: What a session must allow to run the model, and the packs that must be loaded.
    allow: list[str] = field(default_factory=list)
    packs: list[str] = field(default_factory=list)
    #: Operators, "domain::Name", that nobody here has: a translation of yours names them.
    libraries: list[str] = field(default_factory=list)
    #: The execution providers that a session must have; empty where the runtime's own will do.
    providers: list[str] = field(default_factory=list)

    @property
    def is_portable(self) -> bool:
        """Whether plain ONNX Runtime runs the model, with nothing else installed."""
        return all(row.is_portable for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "is_portable": self.is_portable}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    def __str__(self) -> str:
        table = _table(
            ["torch operator", "count", "became", "portable with"],
            [[_title(one), str(one.count), _became(one), one.advice] for one in self.rows],
        )
        lines = [""]
        lines += [f"{_title(one)}: {one.because}" for one in self.rows if one.because]
        lines.append(f"captured: {self.captured}")
        if self.specialised:
            lines.append("specialised: for other sizes and data than these it may be wrong")
            lines += [f"  {note}" for note in self.specialised]
        lines.append(f"verified: {'; '.join(self.verified) if self.verified else 'no'}")
        lines += [f"state: {one}" for one in self.state]
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"NaN and infinities become something else: {one}" for one in self.not_numbers]
        lines += [f"differs: {one}" for one in self.differs]
        lines += [f"to run it: opgraft.load({pack!r})" for pack in self.packs]
        lines += [f"to run it: register the library that has {one}" for one in self.libraries]
        providers = f", providers={self.providers!r}" if self.providers else ""
        if self.allow:
            allow = f", allow={self.allow!r}"
            lines.append(f"to run it: opgraft.InferenceSession(model{providers}{allow})")
            if "__main__" in self.allow:
                lines.append(
                    "note: another process cannot import what a script declares: put it into a "
                    "module, and import that"
                )
        elif self.is_portable:
            lines.append("to run it: any ONNX Runtime")
        else:
            lines.append("to run it: opgraft.InferenceSession(model)")
        return fitted([table, *map(Line, lines)])


def all_nodes(model: Any) -> Iterator[Any]:
    """Those of the graph, and of the bodies of control flow, which are functions so far."""
    for graph in (model.graph, *model.functions.values()):
        yield from graph.all_nodes()


def rows_of(translated: Translated) -> list[Row]:
    """One row for each operator and each thing it became; what is not portable comes last."""
    made: dict[Any, list[str]] = {}
    foreign: dict[Any, set[str]] = {}
    model = translated.onnx.model
    for node in all_nodes(model):
        source = node.meta.get("node")
        made.setdefault(source, []).append(_name(node))
        foreign.setdefault(source, set()).update(foreign_of(node, model.functions))
    rows: dict[tuple[str, str, str], Row] = {}
    for choice in translated.choices.values():
        nodes = made.get(choice.node, [])
        row = _row(choice, nodes)
        of_a_pack = choice.graft is not None and choice.graft.packs
        row.foreign = tuple(sorted(nodes if of_a_pack else foreign.get(choice.node, ())))
        known = rows.setdefault((row.operator, row.kind, row.became), row)
        known.count += 1
        known.because = known.because or row.because
    return sorted_rows(rows.values())


def sorted_rows(rows: Iterable[Row]) -> list[Row]:
    """What is not portable last."""
    return sorted(rows, key=lambda row: (not row.is_portable, _ORDER.index(row.kind), row.operator))


def _name(node: Any) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else str(node.op_type)


def foreign_of(node: Any, functions: Mapping[Any, Any]) -> set[str]:
    """The operators of a node, or of the model's function that it calls, that ONNX Runtime has
    not."""
    function = functions.get(node.op_identifier())
    if function is None:
        return set() if node.domain in RUNTIME_DOMAINS else {_name(node)}
    return set().union(*(foreign_of(one, functions) for one in function.all_nodes()))


def _row(choice: Choice, made: Iterable[str]) -> Row:
    name = operator_name(choice.node.meta.get(CALLED, choice.node.target))
    names = ", ".join(dict.fromkeys(one for one in made if one != "Constant"))
    part_of = "" if choice.origin == name else choice.origin
    if choice.graft is None:
        return Row(name, 0, choice.kind, names, part_of, because=choice.because)
    became = names if choice.kind == "function" else choice.graft.became
    return Row(name, 0, choice.kind, became, part_of, choice.graft.advice, choice.because)


def _title(row: Row) -> str:
    is_worth_it = row.part_of and row.kind not in (STANDARD, USER)
    return f"{row.operator} (of {row.part_of})" if is_worth_it else row.operator


def _became(row: Row) -> str:
    name = _NAMES[row.kind]
    if row.kind in ("function", STANDARD, USER):
        shown = row.became if len(row.became) <= 40 else row.became[:37] + "..."
        return f"{name}: {shown}" if shown else name
    return name if row.became in ("", "ATen") else f"{name}: {row.became}"


def _table(head: list[str], rows: list[list[str]]) -> Table:
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return Table(head, rows, right=["count"], is_ruled=True)


for _public in (Report, Row):
    _public.__module__ = "opgraft.torch"  # where users find them


def of_another_opset(got: int, wanted: int) -> str:
    return f"opset {got} instead of {wanted}: one of its operators cannot be converted"
