"""The documentation's site: built without a warning, and its notebooks give what they show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
SITE = REPOSITORY / "docs" / "_site"
NOTEBOOKS = {"torch_export": "onnxscript", "sklearn_pipeline": "skl2onnx"}


def test_it_is_built_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: make docs installs it")
    pytest.importorskip("material", reason="mkdocs-material is not installed: make docs")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed: make docs")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    start = (tmp_path / "index.html").read_text()
    assert "A missing operator never stops a model" in start
    assert (tmp_path / "pictures" / "map-dark.svg").exists()
    assert not list(tmp_path.rglob("*.py"))


@pytest.mark.parametrize(
    "path", sorted(SITE.parent.glob("notebooks/*.ipynb")), ids=lambda p: p.stem
)
def test_a_notebook_gives_what_it_shows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nbclient", reason="nbclient is not installed: make docs installs it")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: make docs installs it")
    if path.stem in NOTEBOOKS:
        pytest.importorskip(NOTEBOOKS[path.stem])
    monkeypatch.syspath_prepend(str(SITE))
    import nbformat
    import notebook_page
    import notebook_runs

    stored = nbformat.read(path, as_version=4)
    ran = notebook_runs.run(path)
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert any(notebook_page.text_of(cell) for cell in code)
    for before, after in zip(stored.cells, ran.cells, strict=True):
        if before.cell_type == "code":
            assert notebook_page.text_of(after) == notebook_page.text_of(before), before.source
