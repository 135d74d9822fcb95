"""Starts an operator: `opgraft new` writes its folder from the templates of the package."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

from opgraft._base._errors import Error
from opgraft._base._library import PACKAGE
from opgraft._build._run_tests import install_line, missing_packages

_TEMPLATES = PACKAGE / "templates"


def new(options: argparse.Namespace) -> int:
    domain, name = _parts(options.name)
    file = snake_case(name)
    folder = Path(options.folder or file)
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise Error(f"{folder} exists already. Fix: --folder FOLDER names another place") from None
    words = {"@DOMAIN@": domain, "@NAME@": name, "@FILE@": file}
    # A template for CUDA replaces the one of the same name for the CPU only.
    kinds = ("operator", "cuda") if options.cuda else ("operator",)
    templates = {path.name: path for kind in kinds for path in _TEMPLATES.glob(f"{kind}/*.in")}
    for _, template in sorted(templates.items()):
        text = template.read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        target = folder / template.stem.replace("name", file)
        target.write_text(text, encoding="utf-8")
        print(target)
    missing = missing_packages()
    if missing:
        print(f"opgraft test needs {' and '.join(missing)}: {install_line(missing)}")
    print(f"next: cd {shlex.quote(str(folder))} && opgraft build && opgraft test")
    return 0


def _taken_domains() -> list[str]:
    """Returns the reserved domains, in which users cannot define operators."""
    from opgraft._pyop import RUNTIME_DOMAINS

    return sorted([*filter(None, RUNTIME_DOMAINS), "ai.opgraft"])


def snake_case(name: str) -> str:
    """
    >>> snake_case("CustomOpOne"), snake_case("LayerNorm2D"), snake_case("GELUTanh")
    ('custom_op_one', 'layer_norm2d', 'gelu_tanh')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])", "_", name).lower()


def _parts(full_name: str) -> tuple[str, str]:
    """Returns the domain and the name; raises if an operator cannot have this name."""
    domain, colons, name = full_name.partition("::")
    refusal = f"an operator cannot be called '{full_name}'"
    if not colons or not domain:
        raise Error(f"{refusal}: expected 'domain::Name', such as my.domain::Scale")
    if not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", domain, re.ASCII):
        raise Error(
            f"{refusal}: a domain consists of words of letters, digits and _, separated by dots, "
            "such as my.domain"
        )
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise Error(
            f"{refusal}: '{name}' is not an identifier (a letter, then letters, digits and _)"
        )
    taken = next((one for one in _taken_domains() if f"{domain}.".startswith(f"{one}.")), None)
    if taken is not None:
        owner = {"ai.onnx": "ONNX", "ai.opgraft": "Opgraft"}.get(taken, "ONNX Runtime")
        raise Error(
            f"{refusal}: the domain {domain} is {owner}'s own, and a library that registers it "
            "interferes with its operators. Fix: use your own domain, such as my.domain"
        )
    if snake_case(name).endswith("_test"):
        raise Error(f"{refusal}: {snake_case(name)}.cc would count as a test")
    return domain, name
