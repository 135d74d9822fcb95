"""Partials in stored estimators: trusted as far as what they would call is, and no further."""

from __future__ import annotations

import os
import subprocess
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

skops_io = pytest.importorskip(
    "skops.io", reason="skops is not installed: pip install opgraft[sklearn]"
)

from sklearn.metrics import get_scorer  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer, normalize  # noqa: E402

import opgraft  # noqa: E402
from opgraft.sklearn._stored import _skops  # noqa: E402


def allowing_nothing(names: list[str]) -> None:
    raise opgraft.PolicyError(f"asked for {names}")


def in_a_partial(function: Callable[..., Any], argument: str) -> Any:
    return FunctionTransformer(partial(function, argument))


def in_a_partial_of_a_partial(function: Callable[..., Any], argument: str) -> Any:
    made = partial(function)
    made.called = partial(function, argument)  # type: ignore[attr-defined]
    return FunctionTransformer(partial(made, argument))


def as_an_argument(function: Callable[..., Any], argument: str) -> Any:
    return FunctionTransformer(partial(normalize, norm=partial(function, argument)))


def in_a_dictionary(function: Callable[..., Any], argument: str) -> Any:
    return FunctionTransformer(normalize, kw_args=OrderedDict(norm=partial(function, argument)))


def as_a_score(function: Callable[..., Any], argument: str) -> Any:
    scorer = get_scorer("accuracy")
    vars(scorer)["_score_func"] = partial(function, argument)
    return make_pipeline(FunctionTransformer(normalize, kw_args={"norm": scorer}))


PLACES = [in_a_partial, in_a_partial_of_a_partial, as_an_argument, in_a_dictionary, as_a_score]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("function", [os.system, subprocess.getoutput, eval, open, __import__])
def test_partials_of_what_is_not_trusted_are_refused(
    place: Callable[..., Any], function: Callable[..., Any], tmp_path: Path
) -> None:
    """By the name of what they would call, before anything is called."""
    written = tmp_path / "written"
    data = skops_io.dumps(place(function, f"touch {written}"))
    name = f"{function.__module__}.{function.__name__}"
    with pytest.raises(opgraft.Error) as refused:
        _skops.load(data, allowing_nothing)
    assert isinstance(refused.value, (opgraft.PolicyError, opgraft.ModelError))
    if isinstance(refused.value, opgraft.PolicyError):
        assert name in str(refused.value)
        assert "functools.partial" not in str(refused.value)
    assert not written.exists()


@pytest.mark.parametrize("place", [in_a_partial, as_an_argument, in_a_dictionary])
def test_partials_of_what_is_trusted_load(place: Callable[..., Any]) -> None:
    """The same files, but for the function: what refuses those is that."""
    loaded = _skops.load(skops_io.dumps(place(np.add, "1")), allowing_nothing)
    assert type(loaded) is FunctionTransformer
