"""Builds the site's pages: MkDocs calls this file. It adds the pages that are not under docs/, and
fills in what pages take from elsewhere:

    <!-- command -->                           the help of the command opgraft
    <!-- header opgraft/status.h -->           the reference of a C++ header
    <!-- section CONTRIBUTING.md The house --> a section of a file of the repository
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import command_help
import cpp_reference
import github_markdown
import notebook_page
import repository_pages

REPOSITORY = Path(__file__).resolve().parents[2]
_places = repository_pages.Places(REPOSITORY)


def on_files(files: Files, config: Any) -> Files:
    for path in sorted((REPOSITORY / "docs" / "notebooks").glob("*.ipynb")):
        text = notebook_page.markdown(path)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
    for place, text in _places.pages(REPOSITORY):
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    place = page.file.src_uri
    if place.startswith("sources/"):
        return markdown
    origin = _places.origin(place)
    text = re.sub(
        r"^<!-- (command|header|section)\b *(.*?) *-->$", _fill(place), markdown, flags=re.M
    )
    text = _places.rewrite_links(text, origin, place)
    return github_markdown.for_python_markdown(text)


def _fill(place: str) -> Any:
    def fill(found: re.Match[str]) -> str:
        kind, argument = found.groups()
        if kind == "command":
            return command_help.markdown()
        if kind == "header":
            return cpp_reference.markdown(REPOSITORY / "include", argument)
        file, heading = argument.split(" ", 1)
        text = repository_pages.section(REPOSITORY / file, heading)
        # The links of a section are those of its own file.
        text = text.replace("](#", f"]({Path(file).name}#")
        return _places.rewrite_links(text, file, place, final=True)

    return fill
