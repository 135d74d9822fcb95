"""The names of signals."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """Returns "SIGKILL" for 9, and "signal 64" for a signal without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
