"""What to do about errors of torch's that say nothing of it."""

from __future__ import annotations

import re

from opgraft._base._errors import Error

#: By what an error says. The first that fits counts.
_ADVICE = {
    r"\b[Gg]enerator\b": (
        "draw from torch's own numbers, without `generator=`: these become random operators of "
        "ONNX; or take what is drawn as an argument"
    ),
    r"result \d+ is of shape \[.*\], but the node's attribute 'results' says \[[^]]*\?": (
        "give an example in which each open size is 2 or more: a size of 1 is another case for the "
        "model"
    ),
}
_ANY = (
    "write what the message names with other operators of torch, or make it an operator of yours "
    "(torch.library.custom_op). To export without comparing: verify=False"
)
_HELPFUL = ("Fix:", "verify=False", "specialise=True", "pip install")


def with_fix(error: Error) -> Error:
    """The error, with what to do at its end."""
    text = str(error)
    found = next((advice for said, advice in _ADVICE.items() if re.search(said, text)), "")
    if found and found not in text and "Fix: draw them" not in text:
        return type(error)(f"{text}\nFix: {found}")
    if any(one in text for one in _HELPFUL):
        return error
    return type(error)(f"{text}\nFix: {_ANY}")
