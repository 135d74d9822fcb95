from collections.abc import Sequence
from typing import Any

bridge: Any

def prepare(
    model: bytes, origin: str, runtime: str, allow: str, environment: str
) -> tuple[bytes, bool, bool, list[tuple[str, str, str, str]]]: ...
def declare(
    domain: str,
    name: str,
    module: str,
    inputs: Sequence[tuple[str, int, int]],
    outputs: Sequence[tuple[str, int, int]],
    types: Sequence[tuple[Sequence[int], bool]],
    attributes: Sequence[tuple[str, int, bool]],
    has_shape_rule: bool,
) -> None: ...
def find_error(text: str) -> tuple[str, str, int] | None: ...
def may_be_swapped(feed: object) -> bool: ...
