"""Preparing a model: from what its author wrote to what stock ONNX Runtime accepts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, Union

from opgraft._errors import ModelError, UnavailableError
from opgraft._modules import import_all, names
from opgraft._packs import load_needed, load_preferred

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


_Bytes = bytes  # which PreparedModel.bytes hides


@dataclass(frozen=True)
class PreparedModel:
    """A model that a session with Opgraft registered accepts."""

    #: The folder that the model's external data lies in; None where the model came as bytes.
    folder: str | None
    #: The Python operators that it will run: early notice, for nothing is checked here.
    report: tuple[PythonOperator, ...]
    #: Whether some of its weights lie in files of that folder.
    has_external_data: bool
    #: The runtime finds those only if the model is saved in that folder and opened by its path.
    needs_file: bool
    #: The file that holds just this model, where there is one.
    path: str | None
    _content: _Bytes | None = field(repr=False)  # None where the file has it
    #: The operators of packs that it will run, "domain::Name", and the paths of their packs.
    packs: dict[str, str] = field(default_factory=dict)
    #: The operators of torch's library ATen that it will run in libtorch, "aten::name" or
    #: "aten::name.overload", and whether they run without an allowance.
    aten: dict[str, bool] = field(default_factory=dict)

    @property
    def bytes(self) -> _Bytes:
        """The model, as an ONNX file holds it."""
        if self._content is not None:
            return self._content
        assert self.path is not None
        return Path(self.path).read_bytes()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model. One with external data belongs into the same folder as the original."""
        folder = os.path.dirname(os.path.abspath(path))
        if self.has_external_data and self.folder is not None and folder != self.folder:
            raise ModelError(
                f"some of the model's weights lie in files of '{self.folder}', where it must lie "
                f"too, not in '{folder}'"
            )
        if os.path.exists(path) and not os.path.isfile(path):  # /dev/stdout, say
            Path(path).write_bytes(self.bytes)
            return
        # A session may have the file mapped that this one replaces: it must stay whole.
        target = os.path.realpath(path)
        written = f"{target}.{os.getpid()}.part"
        try:
            if self._content is None and self.path is not None:
                shutil.copyfile(self.path, written)
            else:
                Path(written).write_bytes(self.bytes)
            if os.path.exists(target):
                shutil.copymode(target, written)
            os.replace(written, target)
        except BaseException:
            Path(written).unlink(missing_ok=True)
            raise


def prepare(
    model: Model,
    *,
    runtime: str | None = None,
    allow: Iterable[str] = (),
    imports: Iterable[str] = (),
    prefer: Iterable[str] = (),
) -> PreparedModel:
    """Prepares `model`, a path, bytes or a ModelProto, for a plain onnxruntime session.

    `runtime` is the version of ONNX Runtime that will load it, by default the one installed.
    Operators declared by `@opgraft.op` are known where their module has been imported: `imports`
    names modules to be imported first, `allow` those that may be where the model asks for them.
    `prefer` names operators of ONNX Runtime's own domains that packs shall run instead of it.

    >>> prepared = opgraft.prepare("model.onnx")
    >>> prepared.report[0]
    PythonOperator(node='PyOp_L', module='mymodule', class_name='Offsets', operator='')
    >>> options = onnxruntime.SessionOptions()
    >>> opgraft.register(options, allow=["mymodule"])
    >>> session = onnxruntime.InferenceSession(prepared.bytes, options)
    """
    prepared, _ = prepare_to_open(
        model, may_refer=False, runtime=runtime, allow=allow, imports=imports, prefer=prefer
    )
    load_needed(prepared.packs)
    return prepared


def prepare_to_open(
    model: Model,
    *,
    may_refer: bool,
    runtime: str | None = None,
    allow: Iterable[str] = (),
    imports: Iterable[str] = (),
    prefer: Iterable[str] = (),
) -> tuple[PreparedModel, Callable[[], None] | None]:
    """As `prepare`; with `may_refer`, large weights may be references into the model's file.

    Then the second is a function that raises a ModelError once that file is another.
    """
    import_all(imports)
    if isinstance(model, PreparedModel):
        return model, None
    how = _How(
        runtime or installed_runtime(),
        ",".join(names(allow, "allow")),
        os.environ.get("OPGRAFT_ALLOW", ""),
        ",".join(load_preferred(prefer)),
    )
    if isinstance(model, (str, os.PathLike)):
        return _prepare_file(os.fspath(model), how, may_refer)
    original = _bytes(model)
    result = _or_converted(
        lambda: _pyop().prepare(original, "the model", *how), lambda: original, "the model", how
    )
    return _from(result, None, None, original), None


class _How(NamedTuple):
    """What a model is prepared for."""

    runtime: str
    allow: str
    environment: str
    prefer: str


# (bytes, or None where the original serves as it is; has external data, needs a file, operators,
# {operator of a pack: the pack}, {operator of ATen: whether it runs without an allowance})
_Result = tuple[
    bytes | None, bool, bool, list[tuple[str, str, str, str]], dict[str, str], dict[str, bool]
]


def _pyop() -> ModuleType:
    from opgraft import _pyop

    return _pyop


def _prepare_file(
    path: str, how: _How, may_refer: bool
) -> tuple[PreparedModel, Callable[[], None] | None]:
    data_folder, check_unchanged = b"", None

    def prepare_it() -> _Result:
        nonlocal data_folder, check_unchanged
        result: _Result
        result, data_folder, check_unchanged = _pyop().prepare_file(
            os.fsencode(path), *how, may_refer
        )
        return result

    result = _or_converted(prepare_it, Path(path).read_bytes, f"'{path}'", how)
    folder = os.path.dirname(os.path.abspath(path))
    if check_unchanged is not None:
        folder = os.fsdecode(data_folder)
    return _from(result, folder, path, None), check_unchanged


def _from(
    result: _Result, folder: str | None, path: str | None, original: bytes | None
) -> PreparedModel:
    prepared, has_external_data, needs_file, operators, packs, aten = result
    return PreparedModel(
        folder=folder,
        report=tuple(PythonOperator(*operator) for operator in operators),
        has_external_data=has_external_data,
        needs_file=needs_file,
        path=path if prepared is None else None,
        _content=original if prepared is None else prepared,
        packs=packs,
        aten=aten,
    )


def _or_converted(
    prepare_it: Callable[[], _Result], read: Callable[[], bytes], origin: str, how: _How
) -> _Result:
    """What `prepare_it` gives, or, where opsets are in the way, what onnx's converter helps to."""
    try:
        return prepare_it()
    except ModelError as refused:
        if refused.opset_limit is None:
            raise
        from opgraft import _lowering

        try:
            converted = _lowering.convert(read(), refused.opset_limit)
            result: _Result = _pyop().prepare(converted, origin, *how)
            return (result[0] or converted, *result[1:])
        except ModelError as error:
            why = f"after onnx.version_converter, {error}"
            if str(error) == str(refused):
                why = "onnx.version_converter leaves them as they are"
        except _lowering.NotConvertedError as error:
            why = str(error)
        refusal = ModelError(f"{refused} ({why})")
        refusal.opset_limit = refused.opset_limit
        raise refusal from None


def installed_runtime() -> str:
    try:
        import onnxruntime
    except ImportError as error:
        raise UnavailableError(
            "there is no ONNX Runtime to prepare the model for: pip install onnxruntime, or say "
            "which version will load it (runtime=, --runtime)"
        ) from error
    return str(onnxruntime.__version__)


def _bytes(model: object) -> bytes:
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if not hasattr(model, "SerializeToString") or not hasattr(model, "opset_import"):
        raise TypeError(
            f"expected the model as a path, bytes or an onnx.ModelProto, not {type(model).__name__}"
        )
    try:
        return bytes(model.SerializeToString())
    except Exception as error:  # which one depends on the version of protobuf
        raise ModelError(
            f"the ModelProto cannot be written as bytes ({type(error).__name__}: {error}), of "
            "which protobuf takes at most 2 GB. Save it with its weights beside it, "
            "onnx.save(model, path, save_as_external_data=True), and give the path"
        ) from error
