"""Opens pages in a headless Chromium, for the tests of reports."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_OPTIONS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run"
).split()
#: Phones and desktops.
WIDTHS = (390, 1280)
_IS_ON_CANVAS = "place => document.elementFromPoint(place.x, place.y)?.id === 'canvas'"


@contextmanager
def chromium() -> Iterator[Any]:
    """Gives the browser; skips the test where there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pages are not opened"
    )
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium on this machine: pages are not opened")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=_OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, file: Path, width: int, scheme: str = "light") -> Iterator[Any]:
    """Gives the page; afterwards checks that it had no error, loaded nothing, and fits."""
    complaints: list[str] = []
    requests: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    wait_until(page, "window.opgraft")
    yield page
    assert complaints == []
    assert requests == [file.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def wait_until(page: Any, condition: str) -> None:
    """Waits for a condition in JavaScript. Playwright's own wait_for_function compiles its text in
    the page, which the page's policy forbids."""
    end = time.monotonic() + 30
    while not page.evaluate(f"Boolean({condition})"):
        assert time.monotonic() < end, f"not so after 30 s: {condition}"
        time.sleep(0.02)


def click(page: Any, name: str, *, at_fold: bool = False) -> None:
    """Clicks a node of the graph, by its name, or the sign that unfolds it."""
    place = page.evaluate("name => opgraft.where(name)", name)
    assert place is not None, f"'{name}' is not drawn"
    if not page.evaluate(_IS_ON_CANVAS, place):
        page.click("#fit")
        place = page.evaluate("name => opgraft.where(name)", name)
        assert page.evaluate(_IS_ON_CANVAS, place), f"'{name}' is out of sight"
    page.mouse.click(place["right"] - 8 if at_fold else place["x"], place["y"])
