"""What signals are called."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """ "SIGKILL" for 9; one without a name by its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
