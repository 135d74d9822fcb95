"""The error for a stored estimator that Opgraft cannot have written."""

from __future__ import annotations

from opgraft._base._errors import ModelError

#: The beginning and the end of its message.
OPENING = "the stored estimator is damaged: "
ADVICE = ". Fix: the file was changed after it was written; get a new copy from its author"


def damaged(what: str) -> ModelError:
    return ModelError(f"{OPENING}{what}{ADVICE}")
