"""ONNX Runtime's sessions with Opgraft's operators."""

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
from opgraft._base._errors import Error, ModelError, of_kind, raised_by_runtime, translate
from opgraft._base._host_of_workers import isolation_text
from opgraft._base._library import installed_libtorch, library_path
from opgraft._base._log import tell
from opgraft._base._modules import import_all, names
from opgraft._cuda._provider import Chosen, check_alone
from opgraft._declare._packs import load_needed, load_preferred
from opgraft._pyop import is_plain
from opgraft._run._kernels import Kernels
from opgraft._run._prepare import Model, PreparedModel, prepare_to_open
from opgraft._run._tensors import Exchange

if TYPE_CHECKING:
    from opgraft._run._gpu_runs import Arrays

_run = onnxruntime.InferenceSession.run
_run_with_iobinding = onnxruntime.InferenceSession.run_with_iobinding
_enter_run, _leave_run = _pyop.enter_run, _pyop.leave_run
# When it exits, Python ends daemon threads that take the GIL, even inside ONNX Runtime.
atexit.register(_pyop.close_gate)
_numbers = itertools.count(1)  # of sessions
_ALLOW_ENTRY = "opgraft.allow"
_ISOLATION_ENTRY = "opgraft.isolation"
_LIBTORCH_ENTRY = "opgraft.libtorch"
_KEYWORDS = [
    *("allow", "imports", "prefer", "exact", "isolation", "workers", "python", "timeout"),
    *("memory_limit", "cpu_limit", "retries", "sandbox", "writable", "environment"),
]
_FOLDER_ENTRY = "session.model_external_initializers_file_folder_path"


def register(
    sess_options: onnxruntime.SessionOptions,
    *,
    allow: Iterable[str] = (),
    imports: Iterable[str] = (),
    folder: str | None = None,
    isolation: str | None = None,
    workers: int | None = None,
    python: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
    memory_limit: int | None = None,
    cpu_limit: int | None = None,
    retries: int | None = None,
    sandbox: bool = False,
    writable: Iterable[str | os.PathLike[str]] = (),
    environment: Iterable[str] = (),
) -> None:
    """Registers Opgraft's operators: plain sessions with these options then run prepared models.

    `allow` names the Python modules that a model may run: a module's exact name, or `"package.*"`
    for all modules of a package. It also names operators of torch beyond those that any model may
    run, `"aten::name"`, and types and functions in stored estimators of scikit-learn,
    `"module.Name"`.
    Registering again with the same list, or with none, has no effect except that packs loaded
    since are added. Another list is an error, since the runtime cannot undo a registration.
    `imports` names modules to import first, for the operators that they declare.
    `folder` is the folder of the external data of a model given as bytes: `prepared.folder`.
    `isolation="process"` runs Python operators in worker processes, with the settings that follow
    it: see docs/isolation.md.

    >>> opgraft.register(sess_options, allow=["mymodule", "mypackage.*"])
    """
    if not isinstance(sess_options, onnxruntime.SessionOptions):
        raise TypeError(
            f"expected onnxruntime.SessionOptions, not {type(sess_options).__name__}; "
            "to allow modules, use the keyword allow=[...]"
        )
    import_all(imports)
    entries = names(allow, "allow")
    registered = _registered(sess_options)
    text = isolation_text(
        isolation,
        workers=workers,
        python=python,
        timeout=timeout,
        memory_limit=memory_limit,
        cpu_limit=cpu_limit,
        retries=retries,
        sandbox=sandbox,
        writable=writable,
        environment=environment,
    )
    if text is not None:
        _isolate(sess_options, text, is_registered=registered is not None)
    if registered is None:
        _set(sess_options, _ALLOW_ENTRY, ",".join(entries))
        if libtorch := installed_libtorch():
            _set(sess_options, _LIBTORCH_ENTRY, libtorch)
    elif entries and entries != registered:
        raise Error(
            f"these session options are already registered with allow={registered}. Fix: make new "
            f"session options for allow={entries}"
        )
    if registered is None or _pyop.has_packs():
        with raised_by_runtime():
            sess_options.register_custom_ops_library(library_path())
    if folder is not None and folder != _get(sess_options, _FOLDER_ENTRY):
        _set(sess_options, _FOLDER_ENTRY, folder)


def _isolate(sess_options: onnxruntime.SessionOptions, text: str, is_registered: bool) -> None:
    before = _get(sess_options, _ISOLATION_ENTRY)
    if before == text:
        return
    if is_registered or before is not None:
        raise Error(
            f"these session options are already registered with isolation={before!r}. Fix: make "
            f"new session options for isolation={text!r}"
        )
    _pyop.check_isolation(text)
    _set(sess_options, _ISOLATION_ENTRY, text)


def _set(sess_options: onnxruntime.SessionOptions, entry: str, value: str) -> None:
    try:
        sess_options.add_session_config_entry(entry, value)
    except RuntimeError as error:
        raise Error(f"ONNX Runtime refuses {entry}={value[:100]}...: {error}") from error


def _get(sess_options: onnxruntime.SessionOptions, entry: str) -> str | None:
    try:
        return str(sess_options.get_session_config_entry(entry))
    except RuntimeError:
        return None


def _registered(sess_options: onnxruntime.SessionOptions) -> list[str] | None:
    """Returns the list that the options are registered with; None if they are not registered."""
    registered = _get(sess_options, "opgraft.registered")
    if registered is None:
        return None
    return [entry for entry in registered.partition(";")[0].split(",") if entry]


def _refusal(error: Exception, prepared: PreparedModel, origin: str, folder: str) -> Error | None:
    """Returns our error for one that the runtime raises while it makes a session, if the model or
    its libraries are the cause."""
    if explained := _explanation(str(error), prepared, origin, folder):
        refusal: Error = ModelError(explained)
        refusal.__cause__ = error
        return refusal
    if not isinstance(error, (runtime.InvalidProtobuf, runtime.InvalidGraph, runtime.Fail)):
        return None
    found = _pyop.find_refusal(str(error))
    if found is None and isinstance(error, runtime.Fail):
        return None  # it may come from a provider
    refusal = (
        ModelError(f"ONNX Runtime refuses the model: {error}")
        if found is None
        else of_kind(found[0])(found[1])
    )
    refusal.__cause__ = error
    return refusal


def _is_by_runtime(error: Exception) -> bool:
    """Whether the runtime has refused the model, rather than an operator of it, or Opgraft."""
    reason = error.__cause__ if isinstance(error, Error) else error
    return isinstance(reason, (runtime.NotImplemented, runtime.InvalidGraph, runtime.Fail))


def _explanation(text: str, prepared: PreparedModel, origin: str, folder: str) -> str:
    """Returns what is wrong with the model, if looking into it shows that; otherwise ""."""
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
    """Raises if the flag was set during the last operator; the runtime checks it before each."""
    if run_options.terminate:
        raise runtime.Fail(
            "[ONNXRuntimeError] : 1 : FAIL : Exiting due to terminate flag being set to true: it "
            "was set while the last operator ran, and a running operator is not interrupted. "
            "Fix, if an operator takes long: let it check a flag of yours, and raise (docs/pyop.md)"
        )


def _call(
    function: Callable[..., Any],
    *arguments: Any,
    otherwise: Callable[[Exception], Error | None] = lambda error: None,
    **named: Any,
) -> Any:
    """Calls the runtime and turns its errors into ours. Does not start if the process is exiting.

    A run that is entered but never left would delay the exit. Python checks for Ctrl-C after a call
    returns, not between `try` and its first call. So `_enter_run` is called inside the `try`, and
    not by a context manager, whose own code could be interrupted.
    """
    try:
        _enter_run()
        return function(*arguments, **named)
    except Exception as error:  # like raised_by_runtime, without its cost for a successful call
        translated = translate(error) or otherwise(error)
        if translated is None:
            raise
        raise translated from translated.__cause__
    finally:
        _leave_run()


class InferenceSession(onnxruntime.InferenceSession):  # type: ignore[misc]
    """An `onnxruntime.InferenceSession` that runs Python operators and raises Opgraft's errors.

    `model` is a path, bytes, an onnx.ModelProto or a PreparedModel. `allow` names the Python
    modules, and operators of torch, that the model may run, as in `register`. A model that would
    run others is refused with a PolicyError before anything is imported; a model that the runtime
    cannot load is refused with a ModelError. If `allow` is empty, options that are registered
    already keep their list. `imports` names modules to import first, for the operators that they
    declare by `@opgraft.op`. `prefer` names operators of ONNX Runtime's own domains
    ("com.microsoft::Gelu", or a domain for all of them) that packs should run instead of it.
    If the runtime refuses the model because it has no kernels for some types, these nodes run in
    wider types (docs/rescue.md); with `exact`, each of them rounds its result to its own type.

    With `isolation="process"`, Python operators run in up to `workers` worker processes, in which a
    crash is an error of the call. `python` names another python command for them. A call that takes
    longer than `timeout` seconds fails; `memory_limit` is in bytes for a worker, `cpu_limit` in
    seconds of processor time for a call. Calls of operators that are declared pure are repeated up
    to `retries` times if their worker ends. With `sandbox=True` workers have no network, and write
    files only below the paths in `writable`. Workers get the usual variables of the environment,
    and those that `environment` names. docs/isolation.md has more.
    Everything else is as in onnxruntime.

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
        exact: bool = False,
        isolation: str | None = None,
        workers: int | None = None,
        python: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
        cpu_limit: int | None = None,
        retries: int | None = None,
        sandbox: bool = False,
        writable: Iterable[str | os.PathLike[str]] = (),
        environment: Iterable[str] = (),
        **kwargs: Any,
    ) -> None:
        for name in kwargs:
            meant = get_close_matches(name, _KEYWORDS, cutoff=0.7)
            if meant:  # onnxruntime silently ignores unknown keywords
                raise TypeError(f"there is no keyword '{name}'; did you mean '{meant[0]}'?")
        options = onnxruntime.SessionOptions() if sess_options is None else sess_options
        preferred = load_preferred(prefer)
        register(
            options,
            allow=allow,
            imports=imports,
            isolation=isolation,
            workers=workers,
            python=python,
            timeout=timeout,
            memory_limit=memory_limit,
            cpu_limit=cpu_limit,
            retries=retries,
            sandbox=sandbox,
            writable=writable,
            environment=environment,
        )
        # The optimised model that the runtime writes would contain the references too.
        may_refer = not options.optimized_model_filepath
        how: dict[str, Any] = {
            "may_refer": may_refer,
            "allow": _registered(options) or (),
            "prefer": preferred,
        }
        prepared, self._check_unchanged = prepare_to_open(model, **how)
        self._number = next(_numbers)
        self._is_parallel = options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
        self._shares_options = sess_options is not None
        origin = f"'{os.fspath(model)}'" if isinstance(model, (str, os.PathLike)) else "the model"
        chosen = Chosen(providers, provider_options, options)
        try:
            self._create(prepared, options, chosen, origin, kwargs)
        except Exception as refused:
            if isinstance(model, PreparedModel) or not _is_by_runtime(refused):
                raise
            kernels = Kernels(chosen.providers, chosen.provider_options)
            try:
                rescued, self._check_unchanged = prepare_to_open(
                    model, kernels=kernels, exact=exact, **how
                )
            except Error:
                raise refused from refused.__cause__
            self._create_rescued(rescued, options, chosen, origin, kwargs, refused)
        tell("session", "opened %s with %s", origin, self.get_providers())
        self._exchange = Exchange(self)
        self._needs_help = self._exchange.is_needed
        self._use_gpu(chosen.gpu)

    def _create(
        self,
        prepared: PreparedModel,
        options: onnxruntime.SessionOptions,
        chosen: Chosen,
        origin: str,
        kwargs: dict[str, Any],
    ) -> None:
        """Makes the runtime's session."""
        if load_needed(prepared.packs):
            register(options)
        if prepared.needs_file:
            _pyop.refuse_to_open(onnxruntime.__version__)
        self._folder = prepared.folder if prepared._tells_folder else None
        folder = prepared.folder or _get(options, _FOLDER_ENTRY) or ""
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

    def _create_rescued(
        self,
        prepared: PreparedModel,
        options: onnxruntime.SessionOptions,
        chosen: Chosen,
        origin: str,
        kwargs: dict[str, Any],
        refused: Exception,
    ) -> None:
        """The same for a model that the runtime has refused. Raises `refused` if nothing helps."""
        if prepared.rescues:
            try:
                self._create(prepared, options, chosen, origin, kwargs)
            except Exception as error:
                refused = error
            else:
                for one in prepared.rescues:
                    tell("rescue", "node '%s' (%s): %s, %s", one.node, one.operator, *one[2:4])
                return
        if prepared.why_refused and _is_by_runtime(refused):
            raise ModelError(f"{origin}: {prepared.why_refused} ({refused})") from refused
        raise refused

    def cancel(self) -> None:
        """Ends the calls of this session that run in worker processes: their runs raise PyOpError.

        May be called from any thread. Operators that run in this process cannot be ended.

        >>> threading.Timer(5, session.cancel).start()  # doctest: +SKIP
        """
        _pyop.cancel_calls(self._number)

    @contextmanager
    def _external_data(self, options: onnxruntime.SessionOptions) -> Iterator[None]:
        """Sets the folder of the model's external data in the options while the session is made.

        It is reset afterwards, since the caller may use the options for other models, whose data is
        elsewhere. The runtime can neither remove an entry nor copy options, and it warns about each
        change, so options that belong to this session are not reset.
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
        """Assigns the operators that are made meanwhile to this session."""
        before = _pyop.make_session(self._number)
        try:
            yield
        finally:
            _pyop.make_session(before)

    def _check_parallel(self) -> None:
        """Refuses a run from the session's own operator in parallel mode: it would deadlock."""
        if self._is_parallel and _pyop.is_in_operator_of(self._number):
            raise Error(
                "an operator runs the session that it belongs to, whose mode is ORT_PARALLEL: both "
                "would wait for the same threads forever. Fix: let operators run a separate "
                "session with execution_mode = ORT_SEQUENTIAL, which may be of the same model"
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
        """Sets the GPU of the session, or None."""
        self._arrays: Arrays | None = None
        check_alone(self.get_providers())
        if gpu is not None:
            from opgraft._run import _gpu_runs

            self._arrays = _gpu_runs.Arrays(self, gpu)

    def run(
        self, output_names: Any, input_feed: Any, run_options: Any = None, *, stream: Any = None
    ) -> Any:
        # Like _call and super(), without their cost.
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
                # Skips onnxruntime's check of the options, which takes a microsecond; ours pass it.
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
