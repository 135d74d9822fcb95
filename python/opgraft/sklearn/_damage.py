"""The error for a stored estimator that no honest program has made."""

from __future__ import annotations

from opgraft._errors import ModelError

#: The end of its message.
ADVICE = ". Fix: the file was changed after it was made; get it again from its maker"


def damaged(what: str) -> ModelError:
    return ModelError(f"the stored estimator is damaged: {what}{ADVICE}")
