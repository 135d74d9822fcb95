"""Fills in the part of a report that says what a session needs to run the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from opgraft._cuda import _provider
from opgraft._declare import _declare, _packs
from opgraft.torch._eager import _registered
from opgraft.torch._program._dispatch import USER
from opgraft.torch._program._report import Report
from opgraft.torch._rungs._ladder import Graft
from opgraft.torch._rungs._translation import MODULE_ENTRY


def fill(report: Report, nodes: Sequence[Any], grafts: Iterable[Graft]) -> None:
    """Writes what these nodes and grafts need into a report, which has its rows already."""
    grafts = list(grafts)
    report.allow = sorted(
        {*_declaring_modules(nodes), *(module for graft in grafts for module in graft.allow)}
    )
    # For unknown operators only their names can be reported.
    packs = {one.full_name: one.pack for one in _packs.operators()}
    known = {one.schema.full_name for one in _registered.known()}
    foreign = {one for row in report.rows if row.kind == USER for one in row.foreign}
    report.packs = sorted(
        {packs[one] for one in foreign & packs.keys()}
        | {pack for graft in grafts for pack in graft.packs}
    )
    report.libraries = sorted(foreign - packs.keys() - known)
    on_gpu = {one.full_name for one in _declare.operators() if one.schema.on_gpu}
    if any(f"{one.domain}::{one.op_type}" in on_gpu for one in nodes):
        report.providers = list(_provider.PROVIDERS)


def _declaring_modules(nodes: Iterable[Any]) -> set[str]:
    """The Python modules that declare operators of these nodes; other processes need them."""
    return {
        node.metadata_props[MODULE_ENTRY] for node in nodes if MODULE_ENTRY in node.metadata_props
    }
