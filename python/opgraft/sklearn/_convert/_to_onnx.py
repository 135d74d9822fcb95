"""`to_onnx`: converts, verifies the result, and lets Python run the steps that are wrong."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import skl2onnx
from skl2onnx.common.data_types import DoubleTensorType
from sklearn.utils.validation import check_is_fitted

from opgraft._base._errors import Error
from opgraft._doctor._steps import STEPS, as_text
from opgraft._run._frames import METADATA
from opgraft.sklearn._convert import (
    _conversion,
    _ensembles,
    _feed,
    _merge,
    _methods,
    _steps,
    _verify,
)
from opgraft.sklearn._convert._rare_rows import rare_rows
from opgraft.sklearn._convert._recording import Call, record, steps_of


def to_onnx(
    model: Any,
    X: Any = None,
    name: str | None = None,
    initial_types: Sequence[tuple[str, Any]] | None = None,
    target_opset: Any = None,
    options: dict[Any, Any] | None = None,
    white_op: set[str] | None = None,
    black_op: set[str] | None = None,
    final_types: Sequence[tuple[str, Any]] | None = None,
    dtype: Any = None,
    naming: Any = None,
    model_optim: bool = True,
    verbose: int = 0,
    *,
    methods: Sequence[str] | str | None = None,
    verify: bool = True,
) -> Any:
    """Converts a fitted estimator to ONNX, with the arguments of `skl2onnx.to_onnx`.

    What skl2onnx converts stays native. A step that it does not know, or that it converts wrongly,
    becomes a node that runs the step in Python; `print(opgraft.sklearn.report(model))` shows what
    each step became, why, and what would make it native.
    `verify` compares the model with the estimator on X, and finds the steps that are wrong. Without
    X, or if it is False, only steps that cannot be converted or loaded are found.

    `methods` names the methods that the model computes, each as an output of that name: "predict",
    "predict_proba", "decision_function", "transform", "score_samples"... Without it, the outputs
    are those of skl2onnx.

    >>> model = opgraft.sklearn.to_onnx(NMF(2).fit(X), X)
    >>> opgraft.InferenceSession(model).run(None, {"X": X})[0].shape
    (6, 2)
    """
    check_is_fitted(model)
    _methods.refuse_lists(model)
    types = _feed.initial_types_of(model, X, initial_types)
    arguments = {
        "name": f"ONNX({type(model).__name__})" if name is None else name,
        "target_opset": target_opset,
        "options": options,
        "white_op": white_op,
        "black_op": black_op,
        "final_types": final_types,
        "dtype": dtype,
        "naming": naming,
        "model_optim": model_optim,
        "verbose": verbose,
    }
    reasons: dict[int, str] = {}
    if methods is None:
        export = _Export(model, X, types, arguments, None, verify)
        made = export.run()
        reasons |= export.reasons()
    else:
        made = _export_methods(model, X, types, arguments, methods, verify, reasons)
    steps = _steps.list_steps(model, lambda step: reasons.get(id(step)))
    made.metadata_props.add(key=STEPS, value=as_text(steps))
    if told := _feed.metadata_for(model, X, types):
        made.metadata_props.add(key=METADATA, value=json.dumps(told))
    return made


def _export_methods(
    model: Any,
    X: Any,
    types: list[tuple[str, Any]],
    arguments: dict[str, Any],
    methods: Sequence[str] | str,
    verify: bool,
    reasons: dict[int, str],
) -> Any:
    """Fills `reasons`, by the ids of steps: why they are in Python."""
    asked = [methods] if isinstance(methods, str) else list(methods)
    for method in asked:
        there = [one for one in _methods.ASKED if _methods.has(model, one)]
        if method not in there:
            raise Error(
                f"{type(model).__name__} has no method '{method}' that can be an output of a "
                f"model; it has: {', '.join(there) or 'none'}"
            )
    if not asked or len(set(asked)) != len(asked):
        raise Error(f"methods: expected names of methods, each once, not {methods!r}")
    if arguments["final_types"] is not None:
        raise Error("pass methods or final_types, not both: methods name the outputs")
    groups = [[one for one in asked if one in ("predict", "predict_proba")]]
    groups += [[one] for one in asked if one not in groups[0]]
    made = []
    for group in filter(None, groups):
        export = _Export(model, X, types, arguments, tuple(group), verify)
        made.append((export.run(), group))
        reasons |= export.reasons()
    merged = _merge.merge(model, made, asked)
    fed = _feed.feed(X, types) if X is not None and verify else None
    if fed is not None:
        outputs = _verify.open_session(merged).run(None, fed)
        wrong = _verify.difference(model, asked, X, outputs, _real(types))
        if wrong:
            raise Error(
                f"{type(model).__name__}: the merged model of all methods is wrong: {wrong}"
            )
    return merged


#: The most steps that are tried one by one: each try takes a conversion and a run.
_MOST_TRIED = 16


@dataclass(frozen=True)
class _Attempt:
    """A converted model or None, why it is wrong or "", and the step to blame if known."""

    model: Any
    why: str
    step: Any


class _Stuck(Error):
    """Raised if a step is wrong although Python already runs it."""


class _Export:
    """One export. It moves more and more steps to Python until the model is right."""

    def __init__(
        self,
        model: Any,
        X: Any,
        types: list[tuple[str, Any]],
        arguments: dict[str, Any],
        methods: tuple[str, ...] | None,
        verify: bool,
    ) -> None:
        self.model, self.X, self.types = model, X, types
        self.arguments = dict(arguments)
        self.methods = methods
        self.verify = verify
        self.in_python: dict[int, str] = {}
        self.apart: set[int] = set()
        self.calls: dict[int, Call] = {}
        self.tries_rare_rows = verify
        self.rare: dict[int, tuple[Any, Any]] = {}  #: by id: an estimator and its rare rows
        self.wanted = list(methods or _methods.default_methods(model))
        if X is not None:
            self.calls = record(model, X, self.wanted)
        if methods is not None:
            self.arguments["options"] = _merge.options_for(model, methods, arguments["options"])

    def run(self) -> Any:
        try:
            return self._run()
        except _Stuck as error:
            if not self.tries_rare_rows:
                raise
            reason = str(error)
        # It may still be right for the given rows.
        self.tries_rare_rows = False
        self.in_python, self.apart = {}, set()
        made = self._run()
        warnings.warn(
            f"the model is right for the given rows, but not for all others: {reason}",
            UserWarning,
            stacklevel=4,
        )
        return made

    def reasons(self) -> dict[int, str]:
        """Why steps are in Python, by their ids."""
        conversion = _conversion.Conversion(self.model, self.in_python, {}, None, self.apart)
        found = {id(step): conversion.why_python(step) for step in steps_of(self.model)}
        return {key: why for key, why in found.items() if why is not None}

    def _run(self) -> Any:
        while True:
            attempt = self._attempt()
            if not attempt.why:
                return attempt.model
            if attempt.step is not None:
                self._put(attempt.step, attempt.why)
                continue
            for step, why in self._localise(attempt.why):
                self._put(step, why)

    def _attempt(self) -> _Attempt:
        """Converts the whole model with the current steps in Python, and verifies it."""
        try:
            converted = self._convert(self.model, self.types, self.methods, self.arguments)
        except _conversion.StepError as error:
            return _Attempt(None, _reason(error), error.step)
        except Error:
            raise
        except Exception as error:
            return _Attempt(None, f"{type(error).__name__}: {_line(error)}", None)
        why = self._problem(self.model, converted, self.X, self.types, self.wanted)
        return _Attempt(converted, why, None)

    def _put(self, step: Any, why: str) -> None:
        """Converts the ensembles around a step, or the step if it is one, in parts. If that was
        already done, moves the step to Python."""
        around = [one for one in self._ensembles(step) if id(one) not in self.apart]
        if around:
            self.apart |= {id(one) for one in around}
            return
        if id(step) in self.in_python or self._is_unknown(step):
            raise _Stuck(
                f"{type(self.model).__name__} cannot be converted: {type(step).__name__} is wrong "
                f"in Python too: {why}"
            )
        self.in_python[id(step)] = why

    def _ensembles(self, step: Any) -> list[Any]:
        return [
            one
            for one in steps_of(self.model)
            if _ensembles.takes(one) and any(step is inner for inner in steps_of(one))
        ]

    def _is_unknown(self, step: Any) -> bool:
        return _conversion.Conversion(self.model, {}, {}).why_python(step) is not None

    def _convert(
        self,
        model: Any,
        types: list[tuple[str, Any]],
        methods: tuple[str, ...] | None,
        arguments: dict[str, Any],
    ) -> Any:
        conversion = _conversion.Conversion(model, self.in_python, self.calls, methods, self.apart)
        try:
            return conversion.run(types, **arguments)
        except _conversion.StepError as error:
            cause = error.__cause__
            if isinstance(cause, Error):
                raise cause from cause.__cause__  # a step that must run in Python, but cannot
            raise
        except RuntimeError as error:
            if "ai.onnx.ml" not in str(error) or arguments.get("target_opset") is not None:
                raise
        # The newest version of ai.onnx.ml is newer than what skl2onnx itself supports.
        opset = {"": skl2onnx.__max_supported_opset__, "ai.onnx.ml": 3}
        conversion = _conversion.Conversion(model, self.in_python, self.calls, methods, self.apart)
        return conversion.run(types, **{**arguments, "target_opset": opset})

    def _problem(
        self,
        model: Any,
        converted: Any,
        X: Any,
        types: list[tuple[str, Any]],
        wanted: list[str],
        *,
        is_strict: bool = False,
    ) -> str:
        """Says why the model is wrong; empty if it is right."""
        try:
            session = _verify.open_session(converted)
        except Exception as error:
            return f"the runtime refuses it: {_line(error)}"
        if X is None or not self.verify:
            return ""
        held = self._held_to(wanted)
        found = self._differs(session, model, X, types, held, is_strict=is_strict)
        if found or is_strict or not self.tries_rare_rows:
            return found
        rows = self._rare_rows(model, held, X)
        if rows is None or not _feed.fits(rows, types):
            return ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as warnings about ties in generated rows
            found = self._differs(session, model, rows, types, held)
        return f"where values are missing, zero or unknown: {found}" if found else ""

    def _rare_rows(self, model: Any, methods: list[str], X: Any) -> Any:
        if id(model) not in self.rare:
            self.rare[id(model)] = (model, rare_rows(model, methods, X))
        return self.rare[id(model)][1]

    def _differs(
        self,
        session: Any,
        model: Any,
        X: Any,
        types: list[tuple[str, Any]],
        held: list[str],
        *,
        is_strict: bool = False,
    ) -> str:
        """Describes how the results of a session differ from those of the model on X."""
        fed = _feed.feed(X, types)
        if fed is None:
            return ""
        try:
            outputs = session.run(None, fed)
        except Exception as error:
            return f"the runtime fails: {_line(error)}"
        if self.methods is not None:
            outputs = [outputs[_merge.place_of(model, one, len(outputs))] for one in held]
        return _verify.difference(model, held, X, outputs, _real(types), is_strict=is_strict)

    def _held_to(self, wanted: list[str]) -> list[str]:
        """Returns the methods to compare. Scores that skl2onnx adds to a prediction have its own
        definition, so they are compared only if they are requested."""
        if self.methods is not None:
            return wanted
        return [one for one in wanted if one == wanted[0] or one == "predict_proba"]

    def _localise(self, why: str) -> list[tuple[Any, str]]:
        """Returns the innermost step that is wrong alone; otherwise the fewest steps that make the
        whole model right if Python runs them; otherwise the whole model."""
        wrong = []
        for call in self.calls.values():
            if id(call.step) in self.in_python or call.step is self.model:
                continue
            found = self._alone(call)
            if found and not _ensembles.is_composite(call.step):
                return [(call.step, found)]
            if found:
                wrong.append((call.step, found))  # but none of its inner steps is wrong
        if any(id(one) not in self.apart for one in self._ensembles(self.model)):
            return [(self.model, why)]  # it is converted in parts first
        return self._narrow(why) or self._search(why) or wrong[:1] or [(self.model, why)]

    def _narrow(self, why: str) -> list[tuple[Any, str]]:
        """Returns the first transformer that loses precision: it is right alone, but the difference
        may send a tree that follows it down another branch."""
        for step in self._tried():
            call = self.calls[id(step)]
            if call.method == "transform":
                found = self._alone(call, is_strict=True)
                if found:
                    return [(step, f"it loses digits, {found}; and then {why}")]
        return []

    def _tried(self) -> list[Any]:
        """Returns the native steps that are converted one by one, in the order of their calls,
        without the steps inside them."""
        whole = [one for one in steps_of(self.model) if not _ensembles.is_composite(one)]
        inside = {id(one) for step in whole for one in steps_of(step) if one is not step}
        left = {id(one) for one in whole} - {*inside, *self.in_python, id(self.model)}
        return [call.step for key, call in self.calls.items() if key in left]

    def _search(self, why: str) -> list[tuple[Any, str]]:
        """Finds steps to move to Python if each is right alone but the whole is not, for example
        because rounding in one changes a decision in another. Tries single steps, then more."""
        steps = self._tried()
        if len(steps) > _MOST_TRIED:
            return []
        chosen = [[one] for one in reversed(steps)]
        chosen += [steps[:count] for count in range(2, len(steps) + 1)]
        because = f"all are right alone, but the whole is right only with this in Python: {why}"
        before = dict(self.in_python)
        try:
            for some in chosen:
                self.in_python = before | {id(one): because for one in some}
                if not self._attempt().why:
                    return [(one, because) for one in some]
        finally:
            self.in_python = before
        return []

    def _alone(self, call: Call, *, is_strict: bool = False) -> str:
        """Says why a step is wrong alone, on its input in the whole model; empty if it is right."""
        X = self._as_here(call.X)
        is_inner = call.method == "transform"
        methods = _conversion.INNER if is_inner else None
        try:
            types = _feed.initial_types_of(call.step, X, None)
            wanted = list(methods or _methods.default_methods(call.step))
            converted = self._convert(call.step, types, methods, {})
        except Error:
            raise
        except _conversion.StepError as error:
            return _reason(error) if error.step is call.step else ""
        except Exception:
            return ""  # unknown
        return self._problem(call.step, converted, X, types, wanted, is_strict=is_strict)

    def _as_here(self, X: Any) -> Any:
        """Returns X in the type of real numbers that the model computes with."""
        if hasattr(X, "columns") or np.asarray(X).dtype.kind != "f":
            return X
        return np.asarray(X, np.dtype(_real(self.types)))


def _real(types: Sequence[tuple[str, Any]]) -> str:
    """Returns the type of real numbers that a model with these inputs computes with."""
    is_double = any(isinstance(one, DoubleTensorType) for _, one in types)
    return "float64" if is_double else "float32"


def _reason(error: _conversion.StepError) -> str:
    cause = error.__cause__
    name = type(cause).__name__
    if name in ("MissingShapeCalculator", "MissingConverter"):
        return f"skl2onnx {skl2onnx.__version__} has no converter for it"
    return f"skl2onnx {skl2onnx.__version__} raised {name}: {_line(cause)}"


def _line(error: Any) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else text[:297] + "..."
