"""Drops the warnings that the C++ code of torch writes to stderr directly, not through Python."""

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
    """Everything else that is written to stderr meanwhile appears at the end."""
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
