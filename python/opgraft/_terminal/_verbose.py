"""`--verbose`: shows what Opgraft tells Python's logging, on stderr."""

from __future__ import annotations

import logging

from opgraft._base._log import NAME
from opgraft._terminal._document import harmless_line


class _Formatter(logging.Formatter):
    """One line for each record: names of a model, which are untrusted, stay within it."""

    def format(self, record: logging.LogRecord) -> str:
        return harmless_line(super().format(record))


def begin() -> None:
    """Shows the records of Opgraft's loggers from now on."""
    logger = logging.getLogger(NAME)
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
