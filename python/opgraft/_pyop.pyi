from typing import Any

bridge: Any

def prepare(
    model: bytes, origin: str, runtime: str
) -> tuple[bytes, bool, bool, list[tuple[str, str, str]]]: ...
def find_error(text: str) -> tuple[str, str, int] | None: ...
