"""What Opgraft tells Python's `logging`: the logger "opgraft" and its children."""

from __future__ import annotations

import sys

NAME = "opgraft"
_is_quiet = False


def tell(part: str, text: str, *values: object) -> None:
    """Logs to "opgraft.<part>" at level INFO; `values` are formatted into `text` by %.

    Nothing is printed unless the program asks for it. Where nobody has imported `logging`, nobody
    listens: so `import opgraft` does not import it.
    """
    if "logging" not in sys.modules:
        return
    import logging

    global _is_quiet
    if not _is_quiet:
        logging.getLogger(NAME).addHandler(logging.NullHandler())
        _is_quiet = True
    logging.getLogger(f"{NAME}.{part}").info(text, *values)
