"""Adds a "Fix: ..." line to errors that do not have one, such as those from torch."""

from __future__ import annotations

import re

from opgraft._base._errors import Error

#: Advice by a pattern in the error's text. The first match counts.
_ADVICE = {
    r"\b[Gg]enerator\b": (
        "use torch's default generator, without `generator=`: such calls become random operators "
        "of ONNX; or take the random numbers as an argument"
    ),
    r"result \d+ is of shape \[.*\], but the node's attribute 'results' says \[[^]]*\?": (
        "give an example in which each open size is 2 or more: the model treats a size of 1 as a "
        "special case"
    ),
}
_ANY = (
    "replace the code that the message names by other torch operators, or make it an operator of "
    "your own (torch.library.custom_op). To export without verification: verify=False"
)
_HELPFUL = ("Fix:", "verify=False", "specialise=True", "pip install")


def with_fix(error: Error) -> Error:
    """Returns the error with a "Fix: ..." line at its end."""
    text = str(error)
    found = next((advice for said, advice in _ADVICE.items() if re.search(said, text)), "")
    if found and found not in text and "Fix: draw them" not in text:
        return type(error)(f"{text}\nFix: {found}")
    if any(one in text for one in _HELPFUL):
        return error
    return type(error)(f"{text}\nFix: {_ANY}")
