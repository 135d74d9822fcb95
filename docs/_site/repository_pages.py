"""Files of the repository as pages of the site: which there are, and where links to them lead."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

#: Files outside docs/ that are pages themselves.
_PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "README.md": "index.md",
}
_LANGUAGES = {
    ".py": "python",
    ".cc": "cpp",
    ".h": "cpp",
    ".inc": "cpp",
    ".cu": "cuda",
    ".yml": "yaml",
}
_FENCE = re.compile(r"(^(`{3,})[^\n]*\n.*?^\2 *$)", re.M | re.S)
_LINK = re.compile(r"(`+)(?:(?!\1).)+\1|(?<=\])\((?!\w+:|#)([^)\s#]+)((?:#[^)\s]*)?)\)")
#: Marks a link that already leads to its place in the site.
_FINAL = "\N{ZERO WIDTH SPACE}"


class Places:
    """Which file of the repository is which page of the site."""

    def __init__(self, repository: Path) -> None:
        self._place = dict(_PAGES)
        for page in (repository / "docs").rglob("*"):
            if page.is_file() and "_site" not in page.parts:
                path = page.relative_to(repository).as_posix()
                self._place[path] = path.removeprefix("docs/").replace(".ipynb", ".md")
        for page in repository.glob("ops/*/*/README.md"):
            self._place[page.relative_to(repository).as_posix()] = (
                f"operators/{page.parent.name}.md"
            )
        texts = {
            path: (repository / path).read_text()
            for path in self._place
            if path.endswith(".md") and path != "README.md"
        }
        # A source file is a page if one of the pages refers to it.
        for path, text in texts.items():
            for target in _targets(text, path):
                if target not in self._place and (repository / target).is_file():
                    self._place[target] = f"sources/{target}.md"
        self._origin = {place: path for path, place in self._place.items() if path != "README.md"}

    def origin(self, place: str) -> str:
        """Returns the file of the repository that a page is made of."""
        return self._origin.get(place, f"docs/{place}")

    def pages(self, repository: Path) -> Iterator[tuple[str, str]]:
        """Yields the pages that are not under docs/: place and Markdown."""
        for path, place in self._place.items():
            if path.startswith("docs/") or path == "README.md":
                continue
            text = (repository / path).read_text()
            if place.startswith("sources/"):
                language = _LANGUAGES.get(Path(path).suffix, "text")
                text = f'# {path}\n\n`````{language} linenums="1"\n{text}\n`````\n'
                text = "---\nsearch:\n  exclude: true\nhide: [toc]\n---\n" + text
            yield place, text

    def rewrite_links(self, text: str, origin: str, place: str, final: bool = False) -> str:
        """Returns Markdown of the file `origin` with links that hold for the page at `place`."""
        mark = _FINAL if final else ""

        def rewrite(found: re.Match[str]) -> str:
            target, anchor = found[2], found[3]
            if target is None:
                return found[0]
            if target.startswith(_FINAL):
                return f"({target.removeprefix(_FINAL)}{anchor})"
            path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
            if path not in self._place:
                return found[0]  # MkDocs reports it
            to = os.path.relpath(self._place[path], posixpath.dirname(place) or ".")
            return f"({mark}{to}{anchor})"

        return _outside_fences(text, lambda part: _LINK.sub(rewrite, part))


def section(file: Path, heading: str) -> str:
    """Returns what stands under a heading of a Markdown file, up to the next one of its level."""
    parts = re.split(r"^(## .*)$", _hide_fences(file.read_text()), flags=re.M)
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        if title.removeprefix("## ").strip() == heading:
            return body.replace("\0", "## ").strip()
    raise ValueError(f"{file.name} has no section '{heading}', which a page of the site shows")


def _hide_fences(text: str) -> str:
    return _outside_fences(
        text, lambda part: part, lambda code: re.sub(r"^## ", "\0", code, flags=re.M)
    )


def _outside_fences(text: str, change, inside=lambda code: code) -> str:  # type: ignore[no-untyped-def]
    parts = _FENCE.split(text)  # text, fence, its backticks, text, ...
    return "".join(
        change(part) if index % 3 == 0 else inside(part) if index % 3 == 1 else ""
        for index, part in enumerate(parts)
    )


def _targets(text: str, origin: str) -> Iterator[str]:
    for found in _LINK.finditer(_FENCE.sub("", text)):
        if found[2]:
            yield posixpath.normpath(posixpath.join(posixpath.dirname(origin), found[2]))
