"""The reference of a C++ header, in Markdown: Doxygen reads the headers, this writes what it found,
in the order of the header. What is private, or in a namespace `internal`, is left out."""

from __future__ import annotations

import functools
import html
import re
import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_SETTINGS = """
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_AS_ERROR = YES
ALIASES = "opgraft=\\@opgraft"
RECURSIVE = YES
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
SORT_MEMBER_DOCS = NO
AUTOLINK_SUPPORT = NO
EXCLUDE_SYMBOLS = opgraft::internal*
MACRO_EXPANSION = NO
"""
_KINDS = {"function", "typedef", "variable", "enum", "define"}


def markdown(include: Path, header: str) -> str:
    """Returns the reference of `header`, such as "opgraft/status.h"."""
    with_line = []
    for compound in _compounds(str(include)):
        kind, name = compound.get("kind", ""), compound.findtext("compoundname", "")
        if kind in ("class", "struct") and _is_in(compound, header):
            if "::internal" not in name.partition("<")[0] and compound.get("prot") == "public":
                with_line.append((_line(compound), _class(compound)))
        elif kind in ("namespace", "file"):
            for member in compound.iter("memberdef"):
                if member.get("kind") in _KINDS and _is_in(member, header):
                    is_internal = "::internal" in member.findtext("qualifiedname", "")
                    if not is_internal and _is_meant_for_users(member):
                        with_line.append((_line(member), _free(member)))
    if not with_line:
        raise ValueError(f"Doxygen found nothing in {header}")
    unique = dict(sorted(with_line, reverse=True))
    parts = [_introduction(include / header)]
    return "\n".join(parts + [unique[line] for line in sorted(unique)])


@functools.cache
def _compounds(include: str) -> list[Element]:
    with tempfile.TemporaryDirectory() as folder:
        settings = f"{_SETTINGS}INPUT = {include}/opgraft\nSTRIP_FROM_PATH = {include}\n"
        settings += f"OUTPUT_DIRECTORY = {folder}\n"
        done = subprocess.run(
            ["doxygen", "-"], input=settings, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"Doxygen: {done.stderr}")
        files = sorted(Path(folder, "xml").glob("*.xml"))
        return [one for file in files for one in ElementTree.parse(file).iter("compounddef")]


def _is_in(element: Element, header: str) -> bool:
    location = element.find("location")
    return location is not None and location.get("file") == header


def _line(element: Element) -> int:
    location = element.find("location")
    assert location is not None
    return int(location.get("line", 0))


def _is_meant_for_users(member: Element) -> bool:
    """A macro without a comment, or of which another one is made, is no part of the interface."""
    if member.get("kind") != "define":
        return not (member.findtext("name", "").startswith("opgraft_") and not _text(member))
    return bool(_text(member)) and not member.findtext("name", "").endswith("_")


def _introduction(header: Path) -> str:
    """Returns the comment at the top of a header: prose, and code that is indented in it."""
    lines = []
    for line in header.read_text().split("\n"):
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").removeprefix(" "))
    code = re.compile(r"(?:^  .*\n(?:\n(?=  ))?)+", re.M)
    dedent = re.compile(r"^  ", re.M)
    return code.sub(
        lambda found: f"```cpp\n{dedent.sub('', found[0])}```\n", "\n".join(lines) + "\n"
    )


def _class(compound: Element) -> str:
    full_name = compound.findtext("compoundname", "").removeprefix("opgraft::")
    name = full_name.partition("<")[0].strip()  # of a specialisation: its methods, no new heading
    bases = [base.text or "" for base in compound.findall("basecompoundref")]
    head = f"{_template(compound)}{compound.get('kind')} {name}"
    head += f" : public {', '.join(bases)}" if bases and "internal" not in bases[0] else ""
    parts = [f"## `{name}` {{ #{_anchor(name)} }}\n", _code(head), _text(compound) + "\n"]
    if name != full_name:
        parts = []
    for member in compound.iter("memberdef"):
        is_shown = member.get("prot") == "public" and member.get("kind") in _KINDS
        title = member.findtext("name", "")
        if is_shown and not title.startswith("~") and "= delete" not in _signature(member):
            parts.append(_member(member))
    return "\n".join(part for part in parts if part) + "\n"


def _free(member: Element) -> str:
    name = member.findtext("name", "")
    parts = [f"## `{name}` {{ #{_anchor(name)} }}\n", _code(_signature(member)), _text(member)]
    return "\n".join([*parts, _values(member)]) + "\n"


def _member(member: Element) -> str:
    text = f"{_text(member)}\n\n" if _text(member) else ""
    code = _code(_signature(member))
    return f'<div class="cpp-member" markdown>\n\n{code}\n{text}</div>\n\n{_values(member)}'


def _values(member: Element) -> str:
    """Returns the table of an enumeration's values."""
    values = member.findall("enumvalue")
    if not values:
        return ""
    rows = ["| value | |", "|---|---|"]
    for value in values:
        meaning = " ".join(_text(value).split())
        rows.append(f"| `{value.findtext('name')}` | {meaning} |")
    return "\n".join(rows) + "\n"


def _signature(member: Element) -> str:
    kind, name = member.get("kind"), member.findtext("name", "")
    if kind == "define":
        parameters = [param.findtext("defname") or "" for param in member.findall("param")]
        return (
            f"#define {name}({', '.join(parameters)})"
            if member.find("param") is not None
            else f"#define {name}"
        )
    if kind == "enum":
        strong = "class " if member.get("strong") == "yes" else ""
        return f"enum {strong}{name}"
    kind_of = "static " if member.get("static") == "yes" else ""
    virtual = "virtual " if member.get("virt") in ("virtual", "pure-virtual") else ""
    friend = "friend " if member.get("friend") == "yes" else ""
    result = _plain(member.find("type"))
    result = re.sub(r"^(inline|static|constexpr)\s+", "", result)
    if kind == "typedef":
        definition = member.findtext("definition", "")
        if definition.startswith("using"):
            return f"using {name} = {_tight(result)}"
        return f"typedef {_tight(result)} {name}{member.findtext('argsstring', '')}"
    if kind == "variable":
        initial = _plain(member.find("initializer"))
        return f"{kind_of}{_tight(result)} {name}{' ' + initial if initial else ''}"
    parameters = [_parameter(param) for param in member.findall("param")]
    tail = member.findtext("argsstring", "").rpartition(")")[2].replace("=0", "= 0")
    tail = tail.replace("=default", " = default").replace("=delete", " = delete")
    start = f"{_template(member)}{kind_of}{virtual}{friend}{_tight(result)} ".lstrip()
    start = start if result else start.rstrip(" ") + (" " if kind_of or virtual else "")
    one_line = f"{start}{name}({', '.join(parameters)}){tail}"
    if max(map(len, one_line.split("\n"))) <= 88 or len(parameters) < 2:
        return one_line
    joined = ",\n    ".join(parameters)
    return f"{start}{name}(\n    {joined}){tail}"


def _parameter(param: Element) -> str:
    text = _tight(_plain(param.find("type")))
    name = param.findtext("declname") or ""
    array = param.findtext("array") or ""
    default = _tight(_plain(param.find("defval")))
    return f"{text} {name}{array}".strip() + (f" = {default}" if default else "")


def _template(element: Element) -> str:
    parameters = element.find("templateparamlist")
    if parameters is None or not len(parameters):
        return ""
    return f"template <{', '.join(_parameter(one) for one in parameters)}>\n"


def _tight(text: str) -> str:
    """Doxygen puts spaces inside angle brackets and before references."""
    text = re.sub(r"<\s+", "<", re.sub(r"\s+>", ">", text))
    return re.sub(r"\s+([&*])", r"\1", text)


def _plain(element: Element | None) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())


def _code(text: str) -> str:
    return f"```cpp\n{text}\n```\n"


def _text(element: Element) -> str:
    """Returns the comment of an element in Markdown."""
    paragraphs = []
    for part in ("briefdescription", "detaileddescription"):
        for paragraph in element.findall(f"{part}/para"):
            if text := _inline(paragraph).strip():
                paragraphs.append(text)
    return "\n\n".join(paragraphs)


def _inline(element: Element) -> str:
    text = html.escape(element.text or "", quote=False)
    for child in element:
        if child.tag == "computeroutput":
            text += f"`{''.join(child.itertext())}`"
        elif child.tag in ("verbatim", "programlisting"):
            text += f"\n\n```cpp\n{''.join(child.itertext())}\n```\n\n"
        else:
            text += _inline(child)
        text += html.escape(child.tail or "", quote=False)
    return text


def _anchor(name: str) -> str:
    return re.sub(r"\W+", "-", name).strip("-").lower()
