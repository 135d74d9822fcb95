"""Writes docs/operators.md, the list of the operators that Opgraft ships: their declarations and
their folders. Run it when an operator is added or changed: python ops/index.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from opgraft import _pyop
from opgraft._declare import _packs

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER.parent / "docs" / "operators.md"
_NAMES = {one.number: one.onnx_name for one in _pyop.ELEMENT_TYPES}


def folders() -> dict[str, Path]:
    """Returns for each "domain::Name" the folder that declares it, ops/<pack>/<operator>."""
    found = {}
    for source in sorted(FOLDER.glob("*/*/*.cc")):
        if source.stem == source.parent.name:
            for name in re.findall(r'OPGRAFT_OP\("([^"]+)"\)', source.read_text()):
                found[name] = source.parent
    return found


def page() -> str:
    """Returns the page in Markdown. Whether there are CUDA kernels is read from the sources, since
    not every build of the packs includes them."""
    lines = [
        "# Operators that come with Opgraft",
        "Written by `python ops/index.py` from the operators' declarations. A folder holds all "
        "files of one operator: [adding an operator](../CONTRIBUTING.md#adding-an-operator).",
        "",
        "| operator | what it does | types | CUDA | stands for | pack |",
        "|---|---|---|---|---|---|",
    ]
    where = folders()
    for one in sorted(_packs.shipped(), key=lambda one: one.full_name):
        folder = where[one.full_name]
        types = ", ".join(_NAMES[number] for number in one.types[one.inputs[0].type].allowed)
        calls = ", ".join(
            f"`{name}`" for name in dict.fromkeys(call.name for call in _packs.torch_calls(one))
        )
        link = folder.relative_to(FOLDER.parent).as_posix()
        lines.append(
            f"| [{one.domain} {one.name}](../{link}/README.md) | {one.documentation} | {types} "
            f"| {'yes' if any(folder.glob('*.cu')) else 'no'} | {calls} "
            f"| `{Path(one.pack).name}` |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        print(page(), end="")
    else:
        PAGE.write_text(page())
