"""Models of DataFrames as users have them: float64, whole numbers and texts, with holes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")
pandas = pytest.importorskip("pandas", reason="pandas is not installed")

from iris_data import LOGISTIC  # noqa: E402
from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.neighbors import NearestCentroid  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    FunctionTransformer,
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
)

import opgraft  # noqa: E402
import opgraft.sklearn  # noqa: E402
from conftest import Write  # noqa: E402

SURVIVED = np.array([0, 1, 0, 1, 1] * 6)


def passengers(hole: Any = "c") -> Any:
    return pandas.DataFrame(
        {
            "age": [20.0, 30.0, np.nan, 50.0, 41.0] * 6,
            "class": [1, 2, 3, 2, 1] * 6,
            "city": pandas.Series(["a", hole, "a", "a", "b"] * 6, dtype=object),
            "fare": np.linspace(0, 9, 30),
        }
    )


def check(fitted: Any, frame: Any, allow: Any = (), **options: Any) -> list[str]:
    """Compares labels and probabilities; the steps in Python."""
    model = opgraft.sklearn.to_onnx(fitted, frame, **options)
    session = opgraft.InferenceSession(model, allow=allow)
    label, rows = session.run(None, {name: frame[[name]].to_numpy() for name in frame})
    assert (label == fitted.predict(frame)).all()
    if isinstance(rows, list):
        rows = [[row[label] for label in fitted.classes_] for row in rows]
    np.testing.assert_allclose(rows, fitted.predict_proba(frame), atol=1e-4)
    return [one.estimator.rpartition(".")[2] for one in opgraft.sklearn.python_steps(model)]


@pytest.mark.parametrize("zipmap", [True, False])
def test_numbers_of_float64(zipmap: bool) -> None:
    """Maps of probabilities are of float32 alone, and skl2onnx forgets it."""
    frame = passengers()
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), SplineTransformer()), ["age", "fare"]),
        (OneHotEncoder(), ["city"]),
        (StandardScaler(), ["class"]),
    )
    fitted = make_pipeline(columns, LogisticRegression(**LOGISTIC)).fit(frame, SURVIVED)
    steps = check(fitted, frame, options={"zipmap": zipmap})
    assert steps == ["SplineTransformer"]
    native = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame[["fare"]], SURVIVED)
    assert check(native, frame[["fare"]], options={"zipmap": zipmap}) == []
    ours = make_pipeline(StandardScaler(), NearestCentroid()).fit(frame[["fare"]], SURVIVED)
    assert check(ours, frame[["fare"]], options={"zipmap": zipmap}) == ["NearestCentroid"]


@pytest.mark.parametrize("hole", [np.nan, None])
@pytest.mark.parametrize("strategy", [{"strategy": "most_frequent"}, {"fill_value": "?"}])
def test_missing_texts(hole: Any, strategy: dict[str, str]) -> None:
    """ONNX has none: they come as the texts that ONNX Runtime makes of them."""
    frame = passengers(hole)
    given = {"strategy": "constant", "missing_values": hole, **strategy}
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(**given), OneHotEncoder()), ["city"]),
        (StandardScaler(), ["fare"]),
    )
    fitted = make_pipeline(columns, LogisticRegression()).fit(frame, SURVIVED)
    assert check(fitted, frame[["city", "fare"]]) == []


@pytest.mark.parametrize("hole", [np.nan, None, "nan"])
def test_missing_texts_in_a_function_of_frames(write_module: Write, hole: Any) -> None:
    """A text that only looks missing is a text."""
    import importlib

    module = write_module("def known(frame):\n    return frame.notna().astype(float)\n")
    known = FunctionTransformer(importlib.import_module(module).known)
    frame = passengers(hole)[["city", "class"]]
    fitted = make_pipeline(known, LogisticRegression()).fit(frame, SURVIVED)
    assert check(fitted, frame, [module]) == ["FunctionTransformer"]
