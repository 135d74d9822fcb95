"""Prepares a model: turns what its author wrote into what stock ONNX Runtime accepts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from opgraft._base._errors import ModelError, UnavailableError
from opgraft._base._log import tell
from opgraft._base._modules import import_all, names
from opgraft._declare._packs import load_needed, load_preferred

if TYPE_CHECKING:
    from onnx import ModelProto

    from opgraft import _pyop
    from opgraft._run._kernels import Kernels

Model = Union[str, "os.PathLike[str]", bytes, "ModelProto", "PreparedModel"]


class PythonOperator(NamedTuple):
    """A Python operator that a model will run, if it is allowed."""

    node: str
    module: str
    class_name: str
    #: "domain::Name" if it was declared by @opgraft.op; it has no class_name then.
    operator: str = ""


class Rescue(NamedTuple):
    """A node that the runtime cannot run as it is, and what stands in for it."""

    node: str
    #: "SwiGLU", or "domain::Name".
    operator: str
    #: By what it is run, such as "function body".
    rung: str
    #: What that costs in each run, such as "7 nodes".
    cost: str
    #: What would make it unnecessary, such as "opset 28"; or "".
    native_from: str


_Bytes = bytes  # since PreparedModel.bytes hides the name


@dataclass(frozen=True)
class PreparedModel:
    """A model that a session with Opgraft registered accepts."""

    #: The folder of the model's external data; None if the model was given as bytes.
    folder: str | None
    #: The Python operators that it will run, for information: nothing is checked here.
    report: tuple[PythonOperator, ...]
    #: Whether some of its weights are in files in that folder.
    has_external_data: bool
    #: Whether the runtime finds them only if the model is saved in that folder and opened by path.
    needs_file: bool
    #: The file that holds exactly this model, if there is one.
    path: str | None
    _content: _Bytes | None = field(repr=False)  # None if the model is in the file `path`
    #: The operators of packs that it will run, "domain::Name", and the paths of their packs.
    packs: dict[str, str] = field(default_factory=dict)
    #: The operators of torch's library ATen that it will run in libtorch, "aten::name" or
    #: "aten::name.overload", and whether they run without an allowance.
    aten: dict[str, bool] = field(default_factory=dict)
    #: The nodes that the runtime cannot run as they are, and what stands in for each.
    rescues: tuple[Rescue, ...] = ()
    #: Why ONNX Runtime cannot run some of its nodes; "" if that is not known.
    why_refused: str = ""
    #: Whether the runtime must be told the folder, since it gets bytes whose data is there.
    _tells_folder: bool = field(default=False, repr=False)

    @property
    def bytes(self) -> _Bytes:
        """The model, in the format of an ONNX file."""
        if self._content is not None:
            return self._content
        assert self.path is not None
        return Path(self.path).read_bytes()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model. If it has external data, it must go into the original's folder."""
        folder = os.path.dirname(os.path.abspath(path))
        if self.has_external_data and self.folder is not None and folder != self.folder:
            raise ModelError(
                f"some of the model's weights are in files in '{self.folder}', so it must be saved "
                f"there, not in '{folder}'"
            )
        if os.path.exists(path) and not os.path.isfile(path):  # such as /dev/stdout
            Path(path).write_bytes(self.bytes)
            return
        # A session may have mapped the file that is replaced, so that file must not be written to.
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
    exact: bool = False,
) -> PreparedModel:
    """Prepares `model` (a path, bytes or a ModelProto) for a plain onnxruntime session.

    `runtime` is the version of ONNX Runtime that will load it, by default the installed one.
    Operators declared by `@opgraft.op` are found if their module has been imported: `imports` names
    modules to import first, `allow` those that may be imported if the model asks for them.
    `prefer` names operators of ONNX Runtime's own domains that packs should run instead of it.
    Nodes for whose types the installed ONNX Runtime has no kernel run in wider types, and
    `prepared.rescues` lists them; with `exact`, each of them rounds its result to its own type.
    For another version that is not known, and nothing is changed.

    >>> prepared = opgraft.prepare("model.onnx")
    >>> prepared.report[0]
    PythonOperator(node='PyOp_L', module='mymodule', class_name='Offsets', operator='')
    >>> options = onnxruntime.SessionOptions()
    >>> opgraft.register(options, allow=["mymodule"])
    >>> session = onnxruntime.InferenceSession(prepared.bytes, options)
    """
    kernels = None
    if runtime is None or is_installed(runtime):
        from opgraft._run._kernels import Kernels  # here, since it needs onnxruntime

        installed_runtime()
        kernels = Kernels()
    prepared, _ = prepare_to_open(
        model,
        may_refer=False,
        runtime=runtime,
        allow=allow,
        imports=imports,
        prefer=prefer,
        kernels=kernels,
        exact=exact,
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
    kernels: Kernels | None = None,
    exact: bool = False,
) -> tuple[PreparedModel, Callable[[], None] | None]:
    """Like `prepare`; with `may_refer`, large weights may become references to the model's file.

    In that case also returns a function that raises a ModelError if that file has been replaced.
    Nodes are rescued if `kernels` are given.
    """
    import_all(imports)
    if isinstance(model, PreparedModel):
        return model, None
    how = _How(
        runtime or installed_runtime(),
        ",".join(names(allow, "allow")),
        os.environ.get("OPGRAFT_ALLOW", ""),
        ",".join(load_preferred(prefer)),
        kernels,
        exact,
    )
    is_path = isinstance(model, (str, os.PathLike))
    tell(
        "prepare", "preparing %s for ONNX Runtime %s", model if is_path else "a model", how.runtime
    )
    if not isinstance(model, (str, os.PathLike)):
        original = _bytes(model)
        plan, content = _or_converted(lambda: how.plan(model=original), lambda: original, how)
        return _from(plan, content or original, None, None), None
    path = os.fspath(model)
    folder = os.path.dirname(os.path.abspath(path))
    plan, content = _or_converted(
        lambda: how.plan(path=os.fsencode(path), may_refer=may_refer),
        Path(path).read_bytes,
        how,
        origin=f"'{path}'",
        folder=os.fsencode(folder),
    )
    if plan.refers_to_original:
        folder = os.fsdecode(plan.folder)
    prepared = _from(plan, content, folder, path if content is None else None)
    return prepared, plan.check_unchanged if plan.refers_to_original else None


class _How(NamedTuple):
    """The conditions under which a model is prepared."""

    runtime: str
    allow: str
    environment: str
    prefer: str
    kernels: Kernels | None
    exact: bool

    def plan(self, **model: Any) -> _pyop.SessionPlan:
        from opgraft import _pyop  # here, since `import opgraft` needs neither it nor NumPy

        how = self._asdict()
        kernels = how.pop("kernels")
        if kernels is not None:
            model |= {"loads": kernels.loads, "conditions": kernels.conditions}
        return _pyop.make_plan(**model, **how)


def _from(
    plan: _pyop.SessionPlan, content: bytes | None, folder: str | None, path: str | None
) -> PreparedModel:
    tell(
        "prepare",
        "prepared: %d Python operators, packs for %s, libtorch for %s; %s",
        len(plan.python_operators),
        ", ".join(sorted(plan.packs)) or "none",
        ", ".join(sorted(plan.aten)) or "none",
        "rewritten" if content is not None and path is None else "unchanged",
    )
    return PreparedModel(
        folder=folder,
        report=tuple(
            PythonOperator(one.node, one.module, one.class_name, one.operator)
            for one in plan.python_operators
        ),
        has_external_data=plan.has_external_data,
        needs_file=plan.needs_file,
        path=path,
        _content=content,
        packs=plan.packs,
        aten=plan.aten,
        rescues=tuple(Rescue(*one) for one in plan.rescues),
        why_refused=plan.why_refused,
        _tells_folder=plan.tells_folder,
    )


def _or_converted(
    plan_it: Callable[[], _pyop.SessionPlan], read: Callable[[], bytes], how: _How, **known: Any
) -> tuple[_pyop.SessionPlan, bytes | None]:
    """Returns the plan, made with onnx's converter if the opset is too new, and the model for the
    runtime, which is None if that is the original."""
    try:
        plan = plan_it()
        return plan, plan.take_content()
    except ModelError as refused:
        if refused.opset_limit is None:
            raise
        from opgraft._run import _lowering

        try:
            converted = _lowering.convert(read(), refused.opset_limit)
            plan = how.plan(model=converted, **known)
            return plan, plan.take_content() or converted
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
            "there is no ONNX Runtime to prepare the model for. Fix: pip install onnxruntime, or "
            "name the version that will load the model (runtime=, --runtime)"
        ) from error
    return str(onnxruntime.__version__)


def is_installed(runtime: str) -> bool:
    """Whether this version of ONNX Runtime is the installed one."""
    try:
        return installed_runtime() == runtime
    except UnavailableError:
        return False


def _bytes(model: object) -> bytes:
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if not hasattr(model, "SerializeToString") or not hasattr(model, "opset_import"):
        raise TypeError(
            f"expected the model as a path, bytes or an onnx.ModelProto, not {type(model).__name__}"
        )
    try:
        return bytes(model.SerializeToString())
    except Exception as error:  # its class depends on the version of protobuf
        raise ModelError(
            f"the ModelProto cannot be serialised ({type(error).__name__}: {error}); protobuf's "
            "limit is 2 GB. Fix: save it with its weights beside it, "
            "onnx.save(model, path, save_as_external_data=True), and give the path"
        ) from error
