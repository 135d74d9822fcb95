"""The report of an export as a page, in files and in notebooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from browser import chromium, click, opened

import opgraft.torch


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svdvals(torch.relu(self.layer(x)))


@pytest.fixture(scope="module")
def report() -> Any:
    return opgraft.torch.export(Model(), (torch.randn(2, 3, 3),)).report


def test_rungs_and_source_lines(report: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(report.to_html())
    with chromium() as browser, opened(browser, file, 1280) as page:
        click(page, "node_linalg_svdvals")
        panel = page.locator("#panel").inner_text()
        assert "aten::linalg_svdvals" in panel and "ATen node" in panel
        assert "in forward" in panel and Path(__file__).name in panel
        assert page.locator("#panel .tag").inner_text() == "libtorch"
        page.get_by_role("tab", name="Torch").click()
        assert "aten::relu" in page.locator("#panel").inner_text()


def test_differences_are_by_operator(report: Any) -> None:
    differing = opgraft.torch.Report(
        rows=report.rows, differs=["aten::relu differs from torch for 1e30"]
    )
    text = differing.to_html()
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert data["export"]["differs"] == [["aten::relu", "differs from torch for 1e30"]]
    assert data["graphs"] == [] and data["unread"]  # a report alone has no model


def test_notebooks_show_the_page(report: Any) -> None:
    assert report._repr_html_().startswith(
        '<iframe sandbox="allow-scripts" srcdoc="&lt;!DOCTYPE html'
    )


def test_the_page_changes_nothing(report: Any) -> None:
    before = report.to_dict()
    report.to_html()
    assert report.to_dict() == before
