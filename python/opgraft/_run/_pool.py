"""What the worker processes of this process have done."""

from __future__ import annotations

from opgraft import _pyop


def pool_stats() -> dict[str, float]:
    """Returns what the worker processes of this process have done, of all sessions together.

    `workers` run now; `calls` have been given to them; of those that were `started`, some were
    `restarts` of workers that had ended; `bytes` of tensors went to and from them; and calls waited
    for a free worker for `queued_seconds`.

    >>> sorted(opgraft.pool_stats())
    ['bytes', 'calls', 'queued_seconds', 'restarts', 'started', 'workers']
    """
    statistics: dict[str, float] = _pyop.pool_stats()
    return statistics
