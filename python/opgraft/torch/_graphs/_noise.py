"""Holds back the warnings that torch's C++ code writes to stderr, past Python."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

#: As in "[W1117 00:39:45.463370675 shape_type_inference.cpp:1994] Warning: ...".
_OF_TORCH = re.compile(rb"^\[W\d+ [\d:.]+ \w+\.(?:cpp|cc|h):\d+\]")


@contextmanager
def without_warnings_of_torch() -> Iterator[None]:
    """What others write to stderr meanwhile comes through in the end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    try:
        before = os.dup(2)
    except OSError:  # there is no stderr
        yield
        return
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                sys.stderr.flush()
            os.dup2(before, 2)
            os.close(before)
            file.seek(0)
            for line in file:
                if not _OF_TORCH.match(line):
                    os.write(2, line)
