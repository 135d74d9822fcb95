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
    wait_until(page, "window.opgraft !== undefined")
    yield page
    assert complaints == []
    assert requests == [file.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def wait_until(page: Any, condition: str) -> None:
    """Waits until a condition holds. Playwright's own wait uses eval, which a page may forbid."""
    end = time.monotonic() + 30
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"still not so: {condition}"
        time.sleep(0.02)


#: Where a node is to be clicked, and the key that moves the graph if something else is there.
_PLACE = """([name, atFold]) => {
  const place = opgraft.where(name);
  if (!place) return null;
  const canvas = document.getElementById("canvas"), box = canvas.getBoundingClientRect();
  const x = atFold ? place.right - 8 : place.x, y = place.y;
  const away = [x - box.left - box.width / 2, y - box.top - box.height / 2];
  const isWide = Math.abs(away[0]) / box.width > Math.abs(away[1]) / box.height;
  const [less, more] = isWide ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
  const key = away[isWide ? 0 : 1] > 0 ? more : less;
  return { x, y, key: document.elementFromPoint(x, y) === canvas ? null : key };
}"""


def click(page: Any, name: str, *, at_fold: bool = False) -> None:
    """Clicks a node of the graph, by its name, or the sign that unfolds it.

    Moves the graph first if the node is outside the window, or below the search box.
    """
    canvas = page.locator("#canvas")
    canvas.scroll_into_view_if_needed()
    for _ in range(500):
        place = page.evaluate(_PLACE, [name, at_fold])
        assert place is not None, f"'{name}' is not drawn"
        if place["key"] is None:
            page.mouse.click(place["x"], place["y"])
            return
        canvas.press(place["key"])
    raise AssertionError(f"'{name}' cannot be brought into the window")
