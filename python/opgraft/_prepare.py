"""Preparing a model: from what its author wrote to what stock ONNX Runtime accepts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Union

from opgraft._errors import ModelError, UnavailableError
from opgraft._modules import import_all, names

if TYPE_CHECKING:
    from onnx import ModelProto

Model = Union[str, "os.PathLike[str]", bytes, "ModelProto", "PreparedModel"]


class PythonOperator(NamedTuple):
    """A Python operator that a model will run, where it is allowed to."""

    node: str
    module: str
    class_name: str
    #: "domain::Name" of one that was declared by @opgraft.op, which has no class_name.
    operator: str = ""


@dataclass(frozen=True)
class PreparedModel:
    """A model that a session with Opgraft registered accepts."""

    bytes: bytes = field(repr=False)
    #: The folder that the model's external data lies in; None where the model came as bytes.
    folder: str | None
    #: The Python operators that it will run: early notice, for nothing is checked here.
    report: tuple[PythonOperator, ...]
    #: Whether some of its weights lie in files of that folder.
    has_external_data: bool
    #: The runtime finds those only if the model is saved in that folder and opened by its path.
    needs_file: bool
    #: The file that holds just these bytes, where there is one.
    path: str | None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model. One with external data belongs into the same folder as the original."""
        folder = os.path.dirname(os.path.abspath(path))
        if self.has_external_data and self.folder is not None and folder != self.folder:
            raise ModelError(
                f"some of the model's weights lie in files of '{self.folder}', where it must lie "
                f"too, not in '{folder}'"
            )
        Path(path).write_bytes(self.bytes)


def prepare(
    model: Model,
    *,
    runtime: str | None = None,
    allow: Iterable[str] = (),
    imports: Iterable[str] = (),
) -> PreparedModel:
    """Prepares `model`, a path, bytes or a ModelProto, for a plain onnxruntime session.

    `runtime` is the version of ONNX Runtime that will load it, by default the one installed.
    Operators declared by `@opgraft.op` are known where their module has been imported: `imports`
    names modules to be imported first, `allow` those that may be where the model asks for them.

    >>> prepared = opgraft.prepare("model.onnx")
    >>> prepared.report[0]
    PythonOperator(node='PyOp_L', module='mymodule', class_name='Offsets', operator='')
    >>> options = onnxruntime.SessionOptions()
    >>> opgraft.register(options, allow=["mymodule"])
    >>> session = onnxruntime.InferenceSession(prepared.bytes, options)
    """
    import_all(imports)
    if isinstance(model, PreparedModel):
        return model
    original, path = _read(model)
    origin = f"'{path}'" if path else "the model"
    prepared, has_external_data, needs_file, operators = _prepare_or_convert(
        original, origin, runtime or _installed_runtime(), ",".join(names(allow, "allow"))
    )
    return PreparedModel(
        bytes=prepared,
        folder=os.path.dirname(os.path.abspath(path)) if path else None,
        report=tuple(PythonOperator(*operator) for operator in operators),
        has_external_data=has_external_data,
        needs_file=needs_file,
        path=path if prepared is original else None,
    )


def _prepare_or_convert(
    original: bytes, origin: str, runtime: str, allow: str
) -> tuple[bytes, bool, bool, list[tuple[str, str, str, str]]]:
    from opgraft import _pyop

    environment = os.environ.get("OPGRAFT_ALLOW", "")
    try:
        return _pyop.prepare(original, origin, runtime, allow, environment)
    except ModelError as refused:
        if refused.opset_limit is None:
            raise
        from opgraft import _lowering

        try:
            converted = _lowering.convert(original, refused.opset_limit)
            return _pyop.prepare(converted, origin, runtime, allow, environment)
        except ModelError:
            why = "onnx.version_converter leaves them as they are"
        except _lowering.NotConvertedError as error:
            why = str(error)
        raise ModelError(f"{refused} ({why})") from None


def _installed_runtime() -> str:
    try:
        import onnxruntime
    except ImportError as error:
        raise UnavailableError(
            "there is no ONNX Runtime to prepare the model for: pip install onnxruntime, or say "
            "which version will load it (runtime=, --runtime)"
        ) from error
    return str(onnxruntime.__version__)


def _read(model: Model) -> tuple[bytes, str | None]:
    """The model's bytes, and the path they come from."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model), None
    if hasattr(model, "SerializeToString") and hasattr(model, "opset_import"):
        return model.SerializeToString(), None
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(
            f"expected the model as a path, bytes or an onnx.ModelProto, not {type(model).__name__}"
        )
    path = os.fspath(model)
    try:
        return Path(path).read_bytes(), path
    except OSError as error:
        raise ModelError(f"cannot read '{path}': {error.strerror}") from error
