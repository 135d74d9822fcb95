"""Sessions: ONNX Runtime's own, with Opgraft's operators in them."""

from __future__ import annotations

import atexit
import itertools
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from opgraft import _pyop
from opgraft._cuda import Chosen
from opgraft._errors import (
    Error,
    ModelError,
    of_kind,
    raised_by_runtime,
    translate,
)
from opgraft._library import installed_libtorch, library_path
from opgraft._modules import import_all, names
from opgraft._packs import load_needed, load_preferred
from opgraft._prepare import Model, PreparedModel, prepare_to_open
from opgraft._pyop import is_plain
from opgraft._tensors import Exchange

if TYPE_CHECKING:
    from opgraft._cuda_run import Arrays

_run = onnxruntime.InferenceSession.run
_run_with_iobinding = onnxruntime.InferenceSession.run_with_iobinding
_enter_run, _leave_run = _pyop.enter_run, _pyop.leave_run
# Python ends the daemon threads that it meets at its exit, in the midst of ONNX Runtime too.
atexit.register(_pyop.close_gate)
_numbers = itertools.count(1)  # of sessions
_ALLOW_ENTRY = "opgraft.allow"
_LIBTORCH_ENTRY = "opgraft.libtorch"
_FOLDER_ENTRY = "session.model_external_initializers_file_folder_path"


def register(
    sess_options: onnxruntime.SessionOptions,
    *,
    allow: Iterable[str] = (),
    imports: Iterable[str] = (),
    folder: str | None = None,
) -> None:
    """Registers Opgraft's operators, so that plain sessions with these options run prepared models.

    `allow` names the Python modules that a model may run: exactly, or `"package.*"` for all modules
    below a package; operators of torch beyond those that any model may, `"aten::name"`; and types
    and functions that stored estimators of scikit-learn hold, `"module.Name"`.
    Registering again with the same list, or with none, changes nothing; with another it is an
    error, since the runtime cannot take a registration back. Packs that have been loaded since are
    added. `imports` names modules to be imported first, for the operators that they declare.
    `folder` is where the external data of a model lies that is given as bytes: `prepared.folder`.

    >>> opgraft.register(sess_options, allow=["mymodule", "mypackage.*"])
    """
    if not isinstance(sess_options, onnxruntime.SessionOptions):
        raise TypeError(
            f"expected onnxruntime.SessionOptions, not {type(sess_options).__name__}; "
            "modules are allowed by the keyword allow=[...]"
        )
    import_all(imports)
    entries = names(allow, "allow")
    registered = _registered(sess_options)
    if registered is None:
        _set(sess_options, _ALLOW_ENTRY, ",".join(entries))
        if libtorch := installed_libtorch():
            _set(sess_options, _LIBTORCH_ENTRY, libtorch)
    elif entries and entries != registered:
        raise Error(
            f"these session options are registered with allow={registered} already; make new "
            f"ones for allow={entries}"
        )
    if registered is None or _pyop.has_packs():
        with raised_by_runtime():
            sess_options.register_custom_ops_library(library_path())
    if folder is not None and folder != _get(sess_options, _FOLDER_ENTRY):
        _set(sess_options, _FOLDER_ENTRY, folder)


def _set(sess_options: onnxruntime.SessionOptions, entry: str, value: str) -> None:
    try:
        sess_options.add_session_config_entry(entry, value)
    except RuntimeError as error:
        raise Error(f"ONNX Runtime does not take {entry}={value[:100]}...: {error}") from error


def _get(sess_options: onnxruntime.SessionOptions, entry: str) -> str | None:
    try:
        return str(sess_options.get_session_config_entry(entry))
    except RuntimeError:
        return None


def _registered(sess_options: onnxruntime.SessionOptions) -> list[str] | None:
    """The list that the library has registered the options with; None where it has not."""
    registered = _get(sess_options, "opgraft.registered")
    if registered is None:
        return None
    return [entry for entry in registered.partition(";")[0].split(",") if entry]


def _refusal(error: Exception, prepared: PreparedModel, origin: str, folder: str) -> Error | None:
    """What the runtime raises while it makes a session, where the model or its libraries are to
    blame."""
    if explained := _explanation(str(error), prepared, origin, folder):
        refusal: Error = ModelError(explained)
        refusal.__cause__ = error
        return refusal
    if not isinstance(error, (runtime.InvalidProtobuf, runtime.InvalidGraph, runtime.Fail)):
        return None
    found = _pyop.find_refusal(str(error))
    if found is None and isinstance(error, runtime.Fail):
        return None  # it may be a provider's
    refusal = (
        ModelError(f"ONNX Runtime refuses the model: {error}")
        if found is None
        else of_kind(found[0])(found[1])
    )
    refusal.__cause__ = error
    return refusal


def _explanation(text: str, prepared: PreparedModel, origin: str, folder: str) -> str:
    """What is wrong with the model, where that can be looked up in it; else nothing."""
    if prepared.path is None:
        return _pyop.explain(prepared.bytes, origin, folder, text)
    try:
        with (
            open(prepared.path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        ):
            return _pyop.explain(mapped, origin, folder, text)
    except (OSError, ValueError):
        return ""


def _check_not_terminated(run_options: onnxruntime.RunOptions) -> None:
    """ONNX Runtime looks at the flag before each operator; what was asked of the last must hold."""
    if run_options.terminate:
        raise runtime.Fail(
            "[ONNXRuntimeError] : 1 : FAIL : Exiting due to terminate flag being set to true: it "
            "was set while the last operator ran, and an operator that runs is not interrupted. "
            "Fix, where one takes long: have it look at a flag of yours, and raise (docs/pyop.md)"
        )


def _call(
    function: Callable[..., Any],
    *arguments: Any,
    otherwise: Callable[[Exception], Error | None] = lambda error: None,
    **named: Any,
) -> Any:
    """Calls the runtime; raises our errors for its own. Does not begin where the process exits.

    A run that is entered but never left would hold up the exit. Python looks for Ctrl-C after a
    call has returned, not between `try` and its first call; so what enters stands inside, and is
    no context manager, whose own code could be interrupted.
    """
    try:
        _enter_run()
        return function(*arguments, **named)
    except Exception as error:  # as raised_by_runtime, without its cost to a call that goes well
        translated = translate(error) or otherwise(error)
        if translated is None:
            raise
        raise translated from translated.__cause__
    finally:
        _leave_run()


class InferenceSession(onnxruntime.InferenceSession):  # type: ignore[misc]
    """An `onnxruntime.InferenceSession` that runs Python operators and raises Opgraft's errors.

    `model` is a path, bytes, an onnx.ModelProto or a PreparedModel. `allow` names the Python
    modules, and operators of torch, that the model may run, as in `register`; a model that would
    run another is refused with a PolicyError before anything is imported, one that the runtime
    cannot load with a ModelError. Options that are registered already keep their list where `allow`
    is empty. `imports` names modules to be imported first, for the operators that they declare by
    `@opgraft.op`. `prefer` names operators of ONNX Runtime's own domains ("com.microsoft::Gelu", or
    a domain for all of them) that packs shall run instead of it. All else is as in onnxruntime.

    >>> session = opgraft.InferenceSession("model.onnx", allow=["mymodule"])
    >>> session.run(["F"], inputs)[0].shape
    (2, 3)
    """

    def __init__(
        self,
        model: Model,
        sess_options: onnxruntime.SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        *,
        allow: Iterable[str] = (),
        imports: Iterable[str] = (),
        prefer: Iterable[str] = (),
        **kwargs: Any,
    ) -> None:
        for name in kwargs:
            meant = get_close_matches(name, ["allow", "imports", "prefer"], cutoff=0.7)
            if meant:  # onnxruntime takes any keyword, and is silent about those it does not know
                raise TypeError(f"there is no keyword '{name}'; did you mean '{meant[0]}'?")
        options = onnxruntime.SessionOptions() if sess_options is None else sess_options
        preferred = load_preferred(prefer)
        register(options, allow=allow, imports=imports)
        # A model that the runtime writes would have the references too.
        may_refer = not options.optimized_model_filepath
        prepared, self._check_unchanged = prepare_to_open(
            model, may_refer=may_refer, allow=_registered(options) or (), prefer=preferred
        )
        if load_needed(prepared.packs):
            register(options)
        if prepared.needs_file:
            _pyop.refuse_to_open(onnxruntime.__version__)
        self._number = next(_numbers)
        self._is_parallel = options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
        self._folder = prepared.folder if prepared._tells_folder else None
        self._shares_options = sess_options is not None
        origin = f"'{os.fspath(model)}'" if isinstance(model, (str, os.PathLike)) else "the model"
        folder = prepared.folder or _get(options, _FOLDER_ENTRY) or ""
        chosen = Chosen(providers, provider_options, options)
        with self._external_data(options), chosen.explaining(), self._making():
            _call(
                super().__init__,
                prepared.bytes if prepared.path is None else prepared.path,
                options,
                chosen.providers,
                chosen.provider_options,
                otherwise=lambda error: _refusal(error, prepared, origin, folder),
                **kwargs,
            )
        self._exchange = Exchange(self)
        self._needs_help = self._exchange.is_needed
        self._use_gpu(chosen.gpu)

    @contextmanager
    def _external_data(self, options: onnxruntime.SessionOptions) -> Iterator[None]:
        """While the session is made, the options say where its model's external data lies.

        No longer, since the caller may use them for other models, whose data lies elsewhere. The
        runtime can neither forget an entry nor copy options, and it warns of each change of one.
        So options that are this session's own are left as they are.
        """
        if self._folder is None:
            yield
            return
        before = _get(options, _FOLDER_ENTRY) or ""
        if before != self._folder:
            _set(options, _FOLDER_ENTRY, self._folder)
        try:
            yield
        finally:
            if self._shares_options and before != self._folder:
                _set(options, _FOLDER_ENTRY, before)
        if self._check_unchanged is not None:
            self._check_unchanged()

    @contextmanager
    def _making(self) -> Iterator[None]:
        """The operators that are made meanwhile are this session's."""
        before = _pyop.make_session(self._number)
        try:
            yield
        finally:
            _pyop.make_session(before)

    def _check_parallel(self) -> None:
        """In parallel mode a run waits for threads of the session, which its operators hold."""
        if self._is_parallel and _pyop.is_in_operator_of(self._number):
            raise Error(
                "an operator runs the session that it belongs to, whose mode is ORT_PARALLEL: both "
                "would wait for the same threads for good. Fix: let operators run a session of "
                "their own with execution_mode = ORT_SEQUENTIAL, which may be of the same model"
            )

    def set_providers(
        self,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
    ) -> None:
        options = self._sess_options_initial
        chosen = Chosen(providers, provider_options, options)
        with self._external_data(options), self._making():
            _call(super().set_providers, chosen.providers, chosen.provider_options)
        self._use_gpu(chosen.gpu)

    def _use_gpu(self, gpu: int | None) -> None:
        """Notes which GPU the session has; None for none."""
        self._arrays: Arrays | None = None
        if gpu is not None:
            from opgraft import _cuda_run

            self._arrays = _cuda_run.Arrays(self, gpu)

    def run(
        self, output_names: Any, input_feed: Any, run_options: Any = None, *, stream: Any = None
    ) -> Any:
        # As _call and super(), without their cost.
        try:
            _enter_run()
            if self._is_parallel:
                self._check_parallel()
            library = None if self._arrays is None else self._arrays.find(input_feed)
            if self._arrays is not None and library is not None:
                results = self._arrays.run(
                    self, library, output_names, input_feed, run_options, stream
                )
            elif stream is not None:
                with self._on_stream(stream):
                    results = self._exchange.run(self, output_names, input_feed, run_options)
            elif self._needs_help or not is_plain(input_feed):
                results = self._exchange.run(self, output_names, input_feed, run_options)
            else:
                results = _run(self, output_names, input_feed, run_options)
            if run_options is not None:
                _check_not_terminated(run_options)
            return results
        except Exception as error:
            translated = translate(error)
            if translated is None:
                raise
            raise translated from translated.__cause__
        finally:
            _leave_run()

    def run_with_iobinding(
        self, iobinding: Any, run_options: Any = None, *, stream: Any = None
    ) -> Any:
        try:
            _enter_run()
            if self._is_parallel:
                self._check_parallel()
            if stream is None:
                _run_with_iobinding(self, iobinding, run_options)
                if run_options is not None:
                    _check_not_terminated(run_options)
                return None
            arrays = self._gpu_arrays()
            if run_options is None and getattr(iobinding, "_session", None) is self._sess:
                # What onnxruntime checks of other options, for a microsecond, cannot be in ours.
                bound: Any = self._sess
                return bound.run_with_iobinding(iobinding._iobinding, arrays.options(stream))
            with self._on_stream(stream):
                _run_with_iobinding(self, iobinding, run_options)
            if run_options is not None:
                _check_not_terminated(run_options)
            return None
        except Exception as error:
            translated = translate(error)
            if translated is None:
                raise
            raise translated from translated.__cause__
        finally:
            _leave_run()

    @contextmanager
    def _on_stream(self, stream: Any) -> Iterator[None]:
        arrays = self._gpu_arrays()
        arrays.enter(stream)
        try:
            yield
        finally:
            arrays.leave()

    def _gpu_arrays(self) -> Arrays:
        if self._arrays is None:
            raise Error(
                "stream: this session has no GPU. Fix: "
                "providers=['OpgraftCUDA', 'CPUExecutionProvider']"
            )
        return self._arrays

    def run_with_ort_values(
        self, output_names: Any, input_dict_ort_values: Any, run_options: Any = None
    ) -> Any:
        self._check_parallel()
        run = super().run_with_ort_values
        results = _call(run, output_names, input_dict_ort_values, run_options)
        if run_options is not None:
            _check_not_terminated(run_options)
        return results

    def run_with_ortvaluevector(self, run_options: Any, *arguments: Any, **named: Any) -> Any:
        self._check_parallel()
        _call(super().run_with_ortvaluevector, run_options, *arguments, **named)
        if run_options is not None:
            _check_not_terminated(run_options)
