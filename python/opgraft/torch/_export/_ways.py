"""Tries other ways of exporting a model, one after another, until one gives a right program."""

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
    """A way of exporting other than Opgraft's own."""

    #: The exporter, as in "Torch's tracing exporter was tried too".
    name: str
    #: How the model was exported, as in "traced, since ...".
    done: str
    export: Callable[[], Program]


def by_others(error: Error, ways: Sequence[Way]) -> Program:
    """Returns the program of the first way that works, with a note on why it was needed: `error` is
    the error of Opgraft's own way. If no way works, raises that error with the messages of all."""
    told = [str(error)]
    first: Exception = error
    for way in ways:
        tell("export", "trying another way: %s", way.name)
        try:
            program = way.export()
        except Exception as other:
            if _guards.is_refusal(first):
                first = _guards.both(first, other)
            elif _guards.is_refusal(other):  # it says what to do
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
    """Returns the error, with advice if it comes from a torch layer that no way can export."""
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
        f"torch.nn.TransformerEncoder ({names}) uses nested tensors in eval mode when it gets a "
        "src_key_padding_mask, and returns 0 at padded positions; a graph cannot represent nested "
        "tensors. Fix: TransformerEncoder(..., enable_nested_tensor=False), or "
        "`encoder.use_nested_tensor = False`: padded positions then have what the layers compute, "
        f"in torch too, instead of 0.\n{error}"
    )


#: The errors that such a layer causes: results differ, or nested tensors are not supported.
_NESTED = re.compile("captured differs from the model|(?i:nested)")


def check_runs(
    name: str, model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Raises a ModelError if the model itself fails with the arguments: no way can export it."""
    leaves, tree = _private.flatten((args, dict(kwargs)))
    try:
        results_of(model, leaves, tree)
    except Exception as error:
        raise itself_fails(name, error) from error


def check_repeats(
    name: str, model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Raises a ModelError if two equal calls of the model differ: no way can export that."""
    leaves, tree = _private.flatten((args, dict(kwargs)))
    with _private.deterministic(), warnings.catch_warnings():  # fills uninitialised memory alike
        warnings.simplefilter("ignore")
        once, again = (results_of(model, leaves, tree) for _ in range(2))
    once, again = ([one for one in some if isinstance(one, torch.Tensor)] for some in (once, again))
    if not agree(once, again, rtol=1e-3):
        raise ModelError(
            f"{name} gives different results when it is called again with the same arguments: it "
            "keeps state outside of its modules (a global variable, a closure), or reads the clock "
            "or random numbers of the system. Fix: take what changes as an argument, and return it "
            "as an output"
        )


def itself_fails(name: str, error: Exception) -> ModelError:
    text = f"{name} itself fails with the given arguments: {titled_line(error)}\n"
    text += "Fix: give arguments that the model accepts"
    if "enforce_sorted" in text:
        text += ", here sorted lengths; or pass enforce_sorted=False, which Opgraft can export too"
    elif "require grad" in text:
        text += ", and write `with torch.enable_grad():` around the code that takes gradients: an "
        text += "export calls the model under torch.no_grad(), as for inference"
    else:
        text += "; if they are right, fix the model: it fails without Opgraft too"
    found = ModelError(text)
    found.__cause__ = error
    return found
