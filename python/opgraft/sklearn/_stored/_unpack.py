"""A stored estimator's file, unpacked within limits: a small file must not become a large one."""

from __future__ import annotations

import io
import zipfile

from opgraft._base._errors import ModelError

#: What any file may become, and how many times its own size where it becomes more than that.
FREE, RATIO = 64 << 20, 200
#: What no file may exceed.
MOST = 4 << 30
_STEP = 1 << 20


def most(packed: int) -> int:
    """How many bytes a file of this size may become."""
    return min(max(FREE, RATIO * packed), MOST)


def fits(data: bytes) -> bool:
    """Whether a file of ours is within the limits."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return sum(member.file_size for member in file.infolist()) <= most(len(data))


def unpack(data: bytes) -> bytes:
    """The same file with nothing compressed in it; a ModelError where it would become too large.

    The sizes in a zip's directory are the file's own word, so what comes out is counted as well.
    """
    limit = left = most(len(data))
    unpacked = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as source,
        zipfile.ZipFile(unpacked, "w", zipfile.ZIP_STORED) as target,
    ):
        members = source.infolist()
        if len({member.filename for member in members}) != len(members):
            raise ModelError("two of its parts have the same name")
        if sum(member.file_size for member in members) > limit:
            raise _too_large(len(data), limit)
        for member in members:
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ModelError(f"'{member.filename}' is compressed in a way that is not read")
            parts = []
            with source.open(member) as stream:
                # Never read(): that unpacks all before it looks at the size.
                while part := stream.read(min(_STEP, left + 1)):
                    left -= len(part)
                    if left < 0:
                        raise _too_large(len(data), limit)
                    parts.append(part)
            target.writestr(member.filename, b"".join(parts))
    return unpacked.getvalue()


def _too_large(packed: int, limit: int) -> ModelError:
    return ModelError(
        f"its {packed} bytes unpack to more than {limit}, which is the most for a file of this size"
    )
