"""The documentation's site: it builds without a warning, and its pages are whole in a browser."""

from __future__ import annotations

import functools
import importlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browser import WIDTHS, chromium

REPOSITORY = Path(__file__).resolve().parents[1]
FUNCTIONS = REPOSITORY / "python" / "opgraft" / "torch" / "_rungs" / "_functions"
NOTEBOOKS = sorted((REPOSITORY / "docs" / "notebooks").glob("*.ipynb"))
ENVIRONMENT = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}

for package in ("material", "mkdocstrings_handlers.python", "nbclient", "torch", "sklearn"):
    pytest.importorskip(package, reason=f"{package} is not installed: make docs installs it")


def build(configuration: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "-f", str(configuration), "-d", str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("doxygen") is None:
        pytest.skip("doxygen is not on this machine: the site is not built")
    folder = tmp_path_factory.mktemp("site")
    built = build(REPOSITORY / "mkdocs.yml", folder)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    assert not list(folder.rglob("*.py"))
    return folder


def test_every_page_of_the_navigation_is_there(site: Path) -> None:
    text = (REPOSITORY / "mkdocs.yml").read_text().partition("\nnav:")[2]
    pages = re.findall(r"(\S+)\.md$", text, flags=re.M)
    assert len(pages) > 40
    for page in pages:
        assert (site / f"{page}.html").is_file(), page


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("reference/python.html", ["InferenceSession", "opgraft.load", "opgraft.op"]),
        ("reference/python-extensions.html", ["onnx_op", "PyCustomOpDef"]),
        ("reference/cpp-shape.html", ["ShapeContext"]),
        ("reference/cpp-status.html", ["kPyOp", "kModel", "kPolicy", "kUnavailable"]),
        ("reference/command.html", ["opgraft doctor", "--profile"]),
    ],
)
def test_the_reference_is_made_of_the_sources(site: Path, page: str, words: list[str]) -> None:
    text = re.sub(r"<[^>]*>", "", (site / page).read_text())
    for word in words:
        assert word in text


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site's address, on a server of its own, as `make docs-serve` has one."""
    handler = functools.partial(_Silent, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize("width", WIDTHS)
def test_pages_in_a_browser(site: Path, address: str, browser: Any, width: int) -> None:
    """No horizontal scrolling, no missing picture, no error."""
    faults: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
    page.on(
        "request",
        lambda one: (
            one.url.startswith((address, "data:", "blob:"))
            or faults.append(f"{page.url} asks for {one.url}")
        ),
    )
    page.on("response", lambda one: one.status < 400 or faults.append(f"{page.url}: no {one.url}"))
    page.on(
        "console",
        lambda message: message.type == "error" and faults.append(f"{page.url}: {message.text}"),
    )
    files = sorted(one for one in site.rglob("*.html") if one.name != "404.html")
    assert len(files) > 40
    for file in files:
        page.goto(address + file.relative_to(site).as_posix())
        if page.evaluate("document.documentElement.scrollWidth") > width:
            faults.append(f"{file.name}: wider than {width}")
        missing = page.evaluate(
            "[...document.images].filter(one => one.complete && !one.naturalWidth)"
            ".map(one => one.src)"
        )
        faults += [f"{file.name}: {one} is missing" for one in missing]
    context.close()
    assert faults == []


def test_the_search_finds(address: str, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(address)
    page.click("input.md-search__input")
    page.keyboard.type("ShapeContext")
    found = page.locator(".md-search-result__item").first
    found.wait_for(timeout=20_000)
    assert "ShapeContext" in found.inner_text()
    page.close()


def test_a_link_that_leads_nowhere_stops_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Page\n[gone](gone.md)\n")
    text = (REPOSITORY / "mkdocs.yml").read_text()
    validation = re.search(r"^validation:\n(?:  .*\n)+", text, flags=re.M)
    assert validation is not None
    assert "\nstrict: true" in text
    (tmp_path / "mkdocs.yml").write_text(f"site_name: Page\nstrict: true\n{validation[0]}")
    built = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert built.returncode != 0
    assert "gone.md" in built.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_what_it_shows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat

    monkeypatch.syspath_prepend(str(REPOSITORY / "docs" / "_site"))
    ran = importlib.import_module("notebook_runs").run(path)
    shown = nbformat.read(path, as_version=4)
    assert any(cell.cell_type == "code" for cell in shown.cells)
    for is_now, was in zip(ran.cells, shown.cells, strict=True):
        assert _texts(is_now) == _texts(was), is_now.source


def _texts(cell: Any) -> list[str]:
    """What a cell shows, with digits that versions and machines change left out."""
    found = []
    for output in cell.get("outputs", []):
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        found.append(re.sub(r"\d+(\.\d+)*", "0", "".join(text)).strip())
    return found


def test_the_first_contribution_makes_a_model_portable(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "first-contribution.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, flags=re.S)
    assert code is not None
    shipped = FUNCTIONS / "spherical_bessel.py"
    assert shipped.read_text() == code[1]
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "spherical_bessel.py").write_text(code[1])
    (tmp_path / "script.py").write_text(
        """
import sys
import numpy as np
import torch
import opgraft.torch
from opgraft.torch._rungs import _functions

_functions._known()
del _functions._functions["aten::special_spherical_bessel_j0"]
del sys.modules[f"{_functions.__name__}.spherical_bessel"]
_functions._known.cache_clear()
_functions.__path__[:] = sys.argv[1:]
x = torch.tensor([0.0, -0.0, 1e-30, 0.5, -3.0, 100.0, 1e6, float("inf"), float("nan")])
program = opgraft.torch.export(lambda x: torch.special.spherical_bessel_j0(x), (x,))
np.testing.assert_allclose(
    program(x)[0].numpy(), torch.special.spherical_bessel_j0(x).numpy(), rtol=1e-6, atol=1e-7
)
print(program.report.is_portable)
"""
    )
    for arguments, printed in [([], "False"), ([str(tmp_path / "functions")], "True")]:
        command = [sys.executable, "-W", "ignore", str(tmp_path / "script.py"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout.strip() == printed, done.stderr


def test_the_workflow_calls_targets_that_exist() -> None:
    targets = set(re.findall(r"^([\w.$()/-]+):", (REPOSITORY / "Makefile").read_text(), flags=re.M))
    workflow = (REPOSITORY / ".github" / "workflows" / "ci.yml").read_text()
    called = re.findall(r"\bmake (\S+)", workflow)
    assert {"lint", "test", "wheel"} <= set(called)
    for one in called:
        assert one.replace(".venv", "$(VENV)") in targets


def test_the_hooks_run_the_tools_of_lint() -> None:
    lint = (REPOSITORY / "Makefile").read_text().partition("\nlint:")[2].partition("\nformat:")[0]
    hooks = (REPOSITORY / ".pre-commit-config.yaml").read_text()
    for entry in re.findall(r"entry: \.venv/bin/(\S+(?: tests/\S+)?)", hooks):
        assert f"$(BIN)/{entry}" in lint, entry
