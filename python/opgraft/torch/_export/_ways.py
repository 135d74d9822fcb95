"""Tries one way of exporting a model after the other, until one gives a program that is right."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from opgraft._base._errors import Error, ModelError
from opgraft._base._log import tell
from opgraft.torch import _private
from opgraft.torch._capture import _guards
from opgraft.torch._capture._examples import results_of
from opgraft.torch._capture._state_search import agree
from opgraft.torch._graphs._error_lines import first_line, titled_line
from opgraft.torch._program._program import Program


@dataclass(frozen=True)
class Way:
    """Another way than Opgraft's own."""

    #: Who is at work, as in "Torch's tracing exporter was tried too".
    name: str
    #: What the model then is, as in "traced, since ...".
    done: str
    export: Callable[[], Program]


def by_others(error: Error, ways: Sequence[Way]) -> Program:
    """The program of the first way that gives one, which notes why: `error` is what came of
    Opgraft's own. That is raised where none does, and says what each of them said."""
    told = [str(error)]
    first: Exception = error
    for way in ways:
        tell("export", "trying another way: %s", way.name)
        try:
            program = way.export()
        except Exception as other:
            if _guards.is_refusal(first):
                first = _guards.both(first, other)
            elif _guards.is_refusal(other):  # which says what to do
                first, told = (
                    other,
                    [str(other), f"torch.export's way failed too: {first_line(error)}"],
                )
            elif first_line(other) != first_line(error):
                told.append(f"{way.name} was tried too: {first_line(other)}")
            continue
        program.report.notes.append(
            f"{way.done}, since torch.export's way failed: {first_line(error)}"
        )
        return program
    if len(told) == 1:
        raise first from error.__cause__
    raise type(first)("\n".join(told)) from error.__cause__


def with_advice(error: Error, model: Any) -> Error:
    """The error, and what to do where a layer of torch's is behind it, which no way helps."""
    if not isinstance(model, torch.nn.Module) or not _NESTED.search(str(error)):
        return error
    nested = [
        name
        for name, one in model.named_modules()
        if isinstance(one, torch.nn.TransformerEncoder)
        and not one.training
        and getattr(one, "use_nested_tensor", False)
    ]
    if not nested:
        return error
    names = ", ".join(f"'{name}'" if name else "the model itself" for name in nested)
    return type(error)(
        f"torch.nn.TransformerEncoder ({names}) makes nested tensors of what a "
        "src_key_padding_mask leaves, in eval mode, and its result is 0 elsewhere: a graph has no "
        "such tensors. Fix: TransformerEncoder(..., enable_nested_tensor=False), or "
        "`encoder.use_nested_tensor = False`: what is padded is then what the layers give, in "
        f"torch too, and not 0.\n{error}"
    )


#: What is said of such a layer: that results differ, or that there are no such tensors.
_NESTED = re.compile("captured something else|(?i:nested)")


def check_runs(
    name: str, model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """A ModelError where the model itself fails with the arguments: no way of export helps then."""
    leaves, tree = _private.flatten((args, dict(kwargs)))
    try:
        results_of(model, leaves, tree)
    except Exception as error:
        raise itself_fails(name, error) from error


def check_repeats(
    name: str, model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """A ModelError where the model does something else each time: that is why no way helps."""
    leaves, tree = _private.flatten((args, dict(kwargs)))
    with _private.deterministic(), warnings.catch_warnings():  # memory that nobody wrote is alike
        warnings.simplefilter("ignore")
        once, again = (results_of(model, leaves, tree) for _ in range(2))
    once, again = ([one for one in some if isinstance(one, torch.Tensor)] for some in (once, again))
    if not agree(once, again, rtol=1e-3):
        raise ModelError(
            f"{name} gives other results when it is called again with the same arguments: it keeps "
            "state where nobody looks (a global variable, a closure), or asks the clock or the "
            "system for numbers. Fix: take what changes as an argument, and return it as an output"
        )


def itself_fails(name: str, error: Exception) -> ModelError:
    text = f"{name} itself fails with the arguments that are given: {titled_line(error)}\n"
    text += "Fix: give arguments that the model takes"
    if "enforce_sorted" in text:
        text += ", here sorted lengths; or pass enforce_sorted=False, which Opgraft exports too"
    elif "require grad" in text:
        text += ", and write `with torch.enable_grad():` around what takes gradients: exports call "
        text += "models under torch.no_grad(), as they are used"
    else:
        text += ", or, where they are right, correct the model: it fails without Opgraft too"
    found = ModelError(text)
    found.__cause__ = error
    return found
