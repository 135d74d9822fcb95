"""Unpacks the file of a stored estimator within limits, so a small file cannot fill the memory."""

from __future__ import annotations

import io
import zipfile

from opgraft._base._errors import ModelError

#: Any file may unpack to FREE bytes; beyond that, to RATIO times its own size.
FREE, RATIO = 64 << 20, 200
#: No file may unpack to more bytes than this.
MOST = 4 << 30
_STEP = 1 << 20


def most(packed: int) -> int:
    """The most bytes that a file of this size may unpack to."""
    return min(max(FREE, RATIO * packed), MOST)


def fits(data: bytes) -> bool:
    """Whether a file that we wrote is within the limits."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return sum(member.file_size for member in file.infolist()) <= most(len(data))


def unpack(data: bytes) -> bytes:
    """Returns the same file without compression. Raises a ModelError if it would be too large.

    The sizes in a zip's directory may be false, so the unpacked bytes are counted as well.
    """
    limit = left = most(len(data))
    unpacked = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as source,
        zipfile.ZipFile(unpacked, "w", zipfile.ZIP_STORED) as target,
    ):
        members = source.infolist()
        if len({member.filename for member in members}) != len(members):
            raise ModelError("two files in its archive have the same name")
        if sum(member.file_size for member in members) > limit:
            raise _too_large(len(data), limit)
        for member in members:
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ModelError(f"the compression of '{member.filename}' is not supported")
            parts = []
            with source.open(member) as stream:
                # Never read() without a size: that unpacks everything before the size is checked.
                while part := stream.read(min(_STEP, left + 1)):
                    left -= len(part)
                    if left < 0:
                        raise _too_large(len(data), limit)
                    parts.append(part)
            target.writestr(member.filename, b"".join(parts))
    return unpacked.getvalue()


def _too_large(packed: int, limit: int) -> ModelError:
    return ModelError(
        f"its {packed} bytes unpack to more than {limit}, the limit for a file of this size"
    )
