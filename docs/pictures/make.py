"""Makes the pictures of this folder: `python docs/pictures/make.py`, with torch and Chromium."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

import opgraft.torch

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "tests"))


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())
        self.norm = torch.nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x + self.embed(x))
        values = torch.linalg.svdvals(y @ y.mT)
        return torch.softmax(values, -1) + torch.log1p(values)


def main() -> None:
    from browser import chromium, click, opened

    program = opgraft.torch.export(Model(), (torch.randn(2, 4, 4),))
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder) / "report.html"
        # Lines of source are shown by their path in the repository, not by that of this machine.
        file.write_text(program.report.to_html().replace(f"{FOLDER.parents[1]}/", ""))
        with opened(browser, file, 1280) as page:
            click(page, "node_linalg_svdvals")
            page.screenshot(path=FOLDER / "report.png")


if __name__ == "__main__":
    main()
