"""The report of an export: what each torch operator became, and what would make it portable."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from opgraft._base._errors import Error
from opgraft._doctor._shipment import Needs, Part, parts_of, shipment_lines
from opgraft._pyop import RUNTIME_DOMAINS
from opgraft._terminal._document import Line, report_table
from opgraft._terminal._screen import fitted
from opgraft.torch._graphs._graph import operator_name
from opgraft.torch._private import CALLED
from opgraft.torch._program._dispatch import STANDARD, USER, Choice, Translated
from opgraft.torch._rungs._ladder import KINDS

_ORDER = (USER, STANDARD, *KINDS)
#: The names of the kinds in the table.
_NAMES = {
    USER: "your translation",
    "operator": "your operator",
    STANDARD: "ONNX",
    "function": "ONNX (Opgraft)",
    "pack": "pack",
    "aten": "ATen node",
    "python": "Python node",
}
#: The note of exports that can only compare whole programs.
UNTRIED = "its operators were not tried alone, with numbers that are not in the examples"


@dataclass
class Row:
    """A torch operator, and what it became."""

    operator: str
    count: int
    #: "standard", "user" (your translation), "operator" (your operator), "function", "pack",
    #: "aten" or "python".
    kind: str
    #: The ONNX operators, the operator of the pack, or the Python module.
    became: str
    #: The operator that the model calls, if this one is a part of it.
    part_of: str = ""
    #: What would make it portable; empty if it is.
    advice: str = ""
    #: Why it is not on a better rung: the translation there raised, or gave a wrong result.
    because: str = ""
    #: Those of the operators, as "domain::Name", that ONNX Runtime itself does not have.
    foreign: tuple[str, ...] = ()

    @property
    def is_portable(self) -> bool:
        """Whether plain ONNX Runtime runs it, with nothing else installed."""
        return not self.foreign


@dataclass
class Report:
    """What an export did. `print(report)` shows it as a table; `to_dict` and `to_json` are for
    programs.

    >>> report = opgraft.torch.export(torch.median, (torch.ones(3),)).report
    >>> [(row.operator, row.kind) for row in report.rows]
    [('aten::median', 'function')]
    """

    rows: list[Row] = field(default_factory=list)
    #: How the model was captured: "non-strict", "strict", "draft", "traced",
    #: "torch.onnx.export" (by torch alone), or "given".
    captured: str = ""
    #: The sizes and the data that the graph holds for.
    specialised: list[str] = field(default_factory=list)
    #: Whether operators of the model are random. Their results are compared by type and shape.
    is_random: bool = False
    #: What was compared with torch and agreed; empty if verification was not requested, or found a
    #: difference that it could not fix, which a note describes.
    verified: list[str] = field(default_factory=list)
    #: What the model writes in a call and the ONNX model does not keep.
    state: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: Operators that treat NaN and infinities differently than torch, and how.
    not_numbers: list[str] = field(default_factory=list)
    #: Operators that differ from torch for extreme numbers, and for which.
    differs: list[str] = field(default_factory=list)
    #: What a session must allow to run the model, and the packs that must be loaded.
    allow: list[str] = field(default_factory=list)
    packs: list[str] = field(default_factory=list)
    #: Operators, as "domain::Name", that a translation of yours uses and that are not known here.
    libraries: list[str] = field(default_factory=list)
    #: The execution providers that a session needs; empty if the default ones are enough.
    providers: list[str] = field(default_factory=list)

    @property
    def is_portable(self) -> bool:
        """Whether plain ONNX Runtime runs the model, with nothing else installed."""
        return all(row.is_portable for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "is_portable": self.is_portable}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    def to_html(self) -> str:
        """Returns the report as one HTML page, which draws the model and loads nothing."""
        from opgraft.torch._program._report_page import report_page

        program = self.__dict__.get("_program")
        return report_page(self, None if program is None else program.model_proto, _became)

    def _repr_html_(self) -> str:
        """The page in a frame, for notebooks."""
        from opgraft._page._page import framed

        return framed(self.to_html())

    def belong_to(self, program: Any) -> None:
        """Says whose report it is, so that the page can draw the model."""
        self.__dict__["_program"] = program

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_program"}

    def __str__(self) -> str:
        table = report_table(
            ["torch operator", "count", "became", "portable with"],
            [[_title(one), str(one.count), _became(one), one.advice] for one in self.rows],
        )
        lines = [""]
        lines += [f"{_title(one)}: {one.because}" for one in self.rows if one.because]
        lines.append(f"captured: {self.captured}")
        if self.specialised:
            lines.append("specialised: it may be wrong for other sizes and data than these")
            lines += [f"  {note}" for note in self.specialised]
        lines.append(f"verified: {'; '.join(self.verified) if self.verified else 'no'}")
        lines += [f"state: {one}" for one in self.state]
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"NaN and infinities differ: {one}" for one in self.not_numbers]
        lines += [f"differs: {one}" for one in self.differs]
        lines += [f"to ship: {one}" for one in self.shipping()]
        lines += [f"to run it: {one}" for one in self.running()]
        if "__main__" in self.allow:
            lines.append(
                "note: another process cannot import operators that a script declares. Fix: "
                "declare them in a module, and import that"
            )
        return fitted([table, *map(Line, lines)])

    def ship(self) -> list[Part]:
        """Returns what a deployment of the model needs, as `opgraft bundle` would gather it."""
        from opgraft._run._prepare import installed_runtime

        saved = self.__dict__.get("_saved", "")
        modules = [one for one in self.allow if "::" not in one and one != "__main__"]
        return parts_of(
            Needs(
                saved if os.path.isfile(saved) else "",
                installed_runtime(),
                allow=self.allow,
                modules=modules,
                packs=[one for one in self.packs if os.path.isfile(one)],
                has_aten=any(row.kind == "aten" for row in self.rows),
            )
        )

    def shipping(self) -> list[str]:
        """Returns what to ship, in a few lines: the model, libraries, and what must be there."""
        unused = {"program", "system", "licence", "allowance"}
        if self.is_portable:
            unused.add("library")
        try:
            return shipment_lines([one for one in self.ship() if one.kind not in unused])
        except Error as error:  # something is not installed any more
            return [str(error)]

    def was_saved(self, path: str) -> None:
        """Says where the model lies, so that its size is known."""
        self.__dict__["_saved"] = os.path.abspath(path)

    def running(self) -> list[str]:
        """Returns what to write to run the model."""
        lines = [f"opgraft.load({pack!r})" for pack in self.packs]
        lines += [f"register the library that has {one}" for one in self.libraries]
        providers = f", providers={self.providers!r}" if self.providers else ""
        if self.allow:
            return [*lines, f"opgraft.InferenceSession(model{providers}, allow={self.allow!r})"]
        if self.is_portable:
            return [*lines, "any ONNX Runtime"]
        return [*lines, "opgraft.InferenceSession(model)"]


def all_nodes(model: Any) -> Iterator[Any]:
    """All nodes of the graph and of the bodies of control flow, which are still functions here."""
    for graph in (model.graph, *model.functions.values()):
        yield from graph.all_nodes()


def rows_of(translated: Translated) -> list[Row]:
    """Returns a row for each operator and each thing it became; those not portable come last."""
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
    """Sorts rows; those not portable come last."""
    return sorted(rows, key=lambda row: (not row.is_portable, _ORDER.index(row.kind), row.operator))


def _name(node: Any) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else str(node.op_type)


def foreign_of(node: Any, functions: Mapping[Any, Any]) -> set[str]:
    """The operators of a node, or of the function that it calls, that ONNX Runtime does not
    have."""
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


for _public in (Report, Row):
    _public.__module__ = "opgraft.torch"  # where users find them


def of_another_opset(got: int, wanted: int) -> str:
    return f"opset {got} instead of {wanted}: one of its operators cannot be converted"
