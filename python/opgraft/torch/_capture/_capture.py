"""Captures a model as a graph of torch operators, using any mode of torch.export that works."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from opgraft._base._errors import ModelError
from opgraft._base._log import tell
from opgraft.torch import _private
from opgraft.torch._capture import _guards, _open_sizes, _raising
from opgraft.torch._capture._arguments import signature_of
from opgraft.torch._capture._asserts import guards_of
from opgraft.torch._capture._guards import Guard
from opgraft.torch._capture._identity import identities
from opgraft.torch._capture._kept import keeping
from opgraft.torch._capture._lines import line_at
from opgraft.torch._capture._missing_fakes import fakes
from opgraft.torch._capture._open_sizes import Fixed, OpenSizes, Size
from opgraft.torch._capture._printed import texts
from opgraft.torch._capture._trial_sizes import TrialSizes
from opgraft.torch._graphs._random import keeping_random_state


@dataclass
class Captured:
    """A program of torch.export, and how it was captured."""

    program: torch.export.ExportedProgram
    #: "non-strict", "strict", "draft", or "given" for a program that was captured before.
    way: str
    #: The sizes that the program holds for, beyond those that were requested.
    specialised: list[str] = field(default_factory=list)
    #: The data that the program holds for.
    guards: list[Guard] = field(default_factory=list)
    #: The conditions noted during the capture; none for a program that was captured before.
    conditions: list[_private.Condition] = field(default_factory=list)
    #: Sizes that should be open, but are constants.
    fixed: list[Fixed] = field(default_factory=list)
    #: Whether a capture was dropped because torch would crash when it decomposes the program.
    is_leaking: bool = False
    #: The open sizes, and what the program assumes about them.
    sizes: TrialSizes | None = None


class Leak(RuntimeError):
    """A program of torch.export contains tensors of the capture itself, which have no data."""


class Called(torch.nn.Module):
    """A plain function as a module, since torch.export accepts only modules."""

    def __init__(
        self, function: Callable[..., Any], count: int, named: Mapping[str, Any] | None = None
    ) -> None:
        """`count` is the number of positional arguments."""
        super().__init__()
        self.eval()
        self.function = function

        def forward(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        # A built-in function has no signature, or takes any arguments: torch.export would make one
        # argument of all.
        signature = signature_of(function)
        is_known = signature is not None and not any(
            one.kind in _MANY for one in signature.parameters.values()
        )
        if not is_known:
            names = [f"x{index}" for index in range(count)] if count != 1 else ["x"]
            parameters = [inspect.Parameter(one, _PLAIN) for one in names]
            parameters += [inspect.Parameter(one, _NAMED) for one in named or ()]
            setattr(forward, "__signature__", inspect.Signature(parameters))  # noqa: B010
        # The inputs get the names of the parameters.
        setattr(self, "forward", function if is_known else forward)  # noqa: B010


_PLAIN, _NAMED = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def title(model: Any) -> str:
    """The name of a model in messages."""
    if isinstance(model, torch.jit.ScriptModule):
        return str(model.original_name)
    if not isinstance(model, Called):
        return type(model).__name__
    return str(getattr(model.function, "__name__", model.function))


def capture(
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    *,
    specialise: bool = False,
) -> Captured:
    """Tries the modes of torch.export that torch.onnx.export tries. The last is draft_export, which
    follows the example's branches where the others stop. Raises a ModelError if the graph would be
    wrong for other data, unless `specialise` allows it."""
    if isinstance(model, torch.export.ExportedProgram):
        if not (args or kwargs):
            args, kwargs = model.example_inputs or ((), {})
        fixed, asked = [], []
        if args or kwargs:
            sizes = OpenSizes(model, args, kwargs, dynamic_shapes)
            fixed, asked = sizes.fixed_in(model), sizes.asked
        captured = Captured(model, "given", [*map(str, fixed)], fixed=fixed)
        captured.sizes = TrialSizes(model, asked, _private.conditions_of(model))
        captured.guards = guards_of(model)
        if not specialise:
            _refuse("the program that was given", captured.guards)
        return captured
    sizes = OpenSizes(model, args, kwargs, dynamic_shapes)
    work = _Capture(model, args, kwargs, sizes, specialise=specialise)
    captured = work.capture(dynamic_shapes)
    fixed = sizes.fixed_in(captured.program)
    if fixed:
        reasons = _reasons(captured.conditions, fixed)
        # If torch knows that they are fixed, it needs no symbols for them, and may accept what it
        # would otherwise only draft.
        with contextlib.suppress(ModelError):
            captured = work.capture(sizes.changed({one.size: None for one in fixed}))
        fixed = sizes.fixed_in(captured.program)
        captured.fixed = [replace(one, because=reasons.get(one.size, "")) for one in fixed]
    captured.specialised = [*map(str, captured.fixed)]
    captured.sizes = TrialSizes(captured.program, sizes.asked, captured.conditions)
    return captured


def _refuse(name: str, guards: Sequence[Guard]) -> None:
    if refused := _guards.refused(guards):
        raise _guards.refusal(name, refused)


class _Capture:
    """One model with its arguments, captured once or twice."""

    def __init__(
        self,
        model: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        sizes: OpenSizes,
        *,
        specialise: bool,
    ) -> None:
        self._specialise = specialise
        # Guards and conditions of the last capture.
        self._texts: list[Guard] = []
        self._raising: list[Guard] = []
        # Comparisons by identity, of all captures: strict ones are wrong there too.
        self._identities: list[Guard] = []
        self._conditions: list[_private.Condition] = []
        self._model = model
        self._args = args
        self._kwargs = kwargs
        self._sizes = sizes
        names = ("non-strict", "strict", "draft")
        self._ways = dict(zip(names, _private.capture_strategies(), strict=True))

    def capture(self, shapes: Any) -> Captured:
        """Returns the first program that is right for other data too; with `specialise`, the first
        program."""
        errors: list[tuple[str, Exception]] = []
        specialised: list[Guard] = []  # of the first program that is wrong for other data
        for way in self._ways:
            if way == "draft" and _open_sizes.has_dims(shapes):
                _raise_refused_size(errors)  # a draft silently ignores the limits of a Dim
            tell("export", "capturing by torch.export, %s", way)
            program, error = self._by(way, shapes)
            if program is None:
                tell("export", "%s fails: %s", way, _first_line(error))
                errors.append((way, error))
                continue
            misled = [*self._texts, *self._identities]
            guards = [*guards_of(program, self._conditions), *misled, *self._raising]
            guards = _guards.merged(guards)
            # The model saw a symbol, not the example's number, which only a trace has.
            if not misled and (self._specialise or not _guards.refused(guards)):
                return Captured(
                    program,
                    way,
                    guards=guards,
                    conditions=self._conditions,
                    is_leaking=_leak(errors) is not None,
                )
            specialised = specialised or guards
        _refuse(title(self._model), specialised)
        if shapes is not None:
            _raise_refused_size(errors)
        tried = "\n".join(f"{way}: {_first_lines(error)}" for way, error in errors)
        raise ModelError(
            f"torch.export cannot capture {title(self._model)}: "
            f"{_first_line(errors[0][1])}\nThe errors of its modes:\n{tried}\n"
            "Fix: change the model so that torch.export.export accepts it"
        ) from (_leak(errors) or errors[0][1])

    def _by(self, way: str, shapes: Any) -> tuple[Any, Any]:
        shapes, _ = _private.nameless_dimensions(shapes)
        with (
            quiet() as printed,
            keeping(self._model),
            keeping_random_state(),
            texts() as self._texts,
            _raising.noted() as self._raising,
            identities(is_watched=way != "strict") as compared,
            _data_set(is_watched=way != "strict") as data_set,
            _private.noted_conditions() as self._conditions,
            _private.fresh_dispatch(),
            fakes(),
            _private.undoing_transforms(),
            _without_gradients(),
        ):
            strategy = self._ways[way](verbose=False)
            result = strategy(self._model, self._args, dict(self._kwargs), shapes)
        self._identities += compared
        if result.exported_program is not None:
            if data_set or self._has_leaks(result.exported_program):
                return None, Leak("torch.export loses what the model writes to `.data`")
            sys.stderr.write(printed.getvalue())
        return result.exported_program, result.exception

    def _has_leaks(self, program: torch.export.ExportedProgram) -> bool:
        """Whether the program has constants without data although the model has data: torch crashes
        when it decomposes such a program."""
        kept = [*self._model.parameters(), *self._model.buffers()]
        constants = list(program.constants.values())
        has_none = _private.has_fakes((self._args, dict(self._kwargs), kept))
        return not has_none and _private.has_fakes(constants)


@contextmanager
def _data_set(*, is_watched: bool) -> Iterator[list[bool]]:
    """Notes whether this thread executes `x.data = y`: the list is then not empty. Dynamo, which
    reads the model's code, sees that itself."""
    found: list[bool] = []
    if not is_watched:
        yield found
        return
    owner, own = threading.get_ident(), torch.Tensor.data

    def set_data(self: torch.Tensor, value: Any) -> None:
        if threading.get_ident() == owner:
            found.append(True)
        own.__set__(self, value)  # type: ignore[attr-defined]

    setattr(torch.Tensor, "data", property(own.__get__, set_data))  # type: ignore[attr-defined] # noqa: B010
    try:
        yield found
    finally:
        del torch.Tensor.data


def _reasons(conditions: Sequence[_private.Condition], fixed: Sequence[Fixed]) -> dict[Size, str]:
    """The lines of the model that fix sizes."""
    lines = {
        one.size: [
            str(line_at(*condition.stack[-1]))
            for condition in conditions
            if condition.stack and condition.fixes(one.size.parameter, one.size.axis)
        ]
        for one in fixed
    }
    return {size: "; ".join(dict.fromkeys(found)) for size, found in lines.items()}


def _raise_refused_size(errors: Sequence[tuple[str, Exception]]) -> None:
    """Raises a ModelError with torch's own message, if torch rejected the sizes."""
    for _, error in errors:
        if _private.is_refused_size(error):
            lines = [one for one in str(error).splitlines() if one.strip()]
            said = "\n".join(one for one in lines if "draft_export()" not in one)
            raise ModelError(
                f"dynamic_shapes: torch.export rejects these sizes: {said}\n"
                "Fix: give sizes that hold for the example's arguments and for the model, "
                'or only a name, such as "batch", so that torch finds out the rest'
            ) from error


def _leak(errors: Sequence[tuple[str, Exception]]) -> Exception | None:
    return next((one for _, one in errors if isinstance(one, Leak)), None)


def _first_line(error: Exception) -> str:
    return _first_lines(error).partition("\n")[0]


def _first_lines(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: " + "\n    ".join(lines[:3])


@contextmanager
def _without_gradients() -> Iterator[None]:
    """Turns gradients off, as for inference: some models compute something else with gradients.
    Also turns off the fused transformer kernels that torch.nn then uses; they cannot be
    exported."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


#: Loggers that print at length what the report says briefly.
_LOGGERS = (
    *("torch.export", "torch.fx.experimental.symbolic_shapes", "torch._guards"),
    "torch.onnx",  # that torchvision is not installed
    # What their passes leave unchanged.
    *("onnxscript", "onnx_ir"),
)


@contextmanager
def quiet() -> Iterator[io.StringIO]:
    """Holds back what torch prints about a failed capture, and what the model prints meanwhile."""
    with (
        quiet_loggers(),
        warnings.catch_warnings(),
        contextlib.redirect_stderr(io.StringIO()) as printed,
    ):
        warnings.simplefilter("ignore", FutureWarning)
        # Opgraft itself reports the state that is not kept.
        warnings.filterwarnings("ignore", "The tensor attribute", UserWarning)
        yield printed


@contextmanager
def quiet_loggers() -> Iterator[None]:
    """Silences torch's loggers."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
