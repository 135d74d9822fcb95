"""Objects that this process itself has written into models, and so runs without an allowance.

They are recognised by their digest, so a model that was changed later needs an allowance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

#: For each module that runs such objects: the attribute that holds them, and their digests.
_written: dict[str, tuple[str, set[bytes]]] = {}


def remember(module: str, attribute: str, data: bytes) -> None:
    """From now on, nodes of `module` whose tensor `attribute` holds `data` need no allowance.

    >>> remember("mymodule", "state", b"fitted numbers")
    >>> knows("mymodule", {"state": np.frombuffer(b"fitted numbers", np.uint8)})
    True
    """
    _written.setdefault(module, (attribute, set()))[1].add(_digest(data))


def has_of(module: str) -> bool:
    """Whether this process has written anything for nodes of `module`."""
    return module in _written


def knows(module: str, attributes: Mapping[str, Any]) -> bool:
    """Whether this process has written the object in a node of `module` with these attributes."""
    attribute, digests = _written.get(module, ("", set()))
    tobytes = getattr(attributes.get(attribute), "tobytes", None)
    return tobytes is not None and _digest(tobytes()) in digests


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
