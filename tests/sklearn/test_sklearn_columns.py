"""Frames of any types of columns convert, and a session takes the frame itself."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
pytest.importorskip("skops", reason="skops is not installed: pip install opgraft[sklearn]")
pandas = pytest.importorskip("pandas", reason="pandas is not installed")

from skl2onnx.common.data_types import FloatTensorType  # noqa: E402
from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: E402
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler  # noqa: E402

import opgraft  # noqa: E402
import opgraft.sklearn  # noqa: E402
from conftest import Write  # noqa: E402

ROWS = 30
LABELS = np.array([0, 1, 0, 1, 1] * 6)


def passengers() -> Any:
    """The first row lacks all that can be missing."""
    frame = pandas.DataFrame(
        {
            "age": [20.0, 30.0, np.nan, 50.0, 41.0] * 6,
            "kids": [1.0, 2.0, 3.0, 2.0, 1.0] * 6,
            "city": ["c", "b", "a", "a", "b"] * 6,
            "fare": np.linspace(0, 9, ROWS),
        }
    )
    frame.loc[0, ["age", "kids", "city"]] = None
    return frame


def nullable() -> Any:
    """Missing texts of pandas' own type are no missing values to scikit-learn's encoders."""
    frame = passengers()
    frame.loc[0, "city"] = "c"
    return frame.convert_dtypes()


def arrow() -> Any:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    return nullable().convert_dtypes(dtype_backend="pyarrow")


FRAMES = {
    "as pandas makes them": passengers,
    "objects": lambda: passengers().astype({"city": object}),
    "nullable": nullable,
    "Arrow": arrow,
    "categories": lambda: passengers().astype({"city": "category", "kids": "category"}),
    "narrow": lambda: passengers().assign(
        kids=np.arange(ROWS, dtype=np.int8), fare=np.arange(ROWS, dtype=np.float16)
    ),
}


def run(fitted: Any, frame: Any, allow: Any = (), **options: Any) -> Any:
    """Compares what a session gives for the frame with what the estimator gives."""
    model = opgraft.sklearn.to_onnx(fitted, frame, options={"zipmap": False}, **options)
    session = opgraft.InferenceSession(model, allow=allow)
    for rows in (frame, frame.iloc[3:4], frame[list(reversed(frame.columns))]):
        label, probabilities = session.run(None, rows)
        asked = rows[list(frame.columns)]
        np.testing.assert_array_equal(label, fitted.predict(asked))
        np.testing.assert_allclose(probabilities, fitted.predict_proba(asked), atol=1e-5)
    return session


@pytest.mark.parametrize("name", FRAMES)
def test_any_types_of_columns(name: str) -> None:
    frame = FRAMES[name]()
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "kids", "fare"]),
        (texts, ["city"]),
    )
    run(make_pipeline(columns, LogisticRegression()).fit(frame, LABELS), frame)


def test_truths_with_holes() -> None:
    frame = pandas.DataFrame({"paid": [None, True, False, True, False] * 6, "fare": range(ROWS)})
    imputed = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    columns = make_column_transformer((imputed, ["paid"]), (StandardScaler(), ["fare"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # rows that are made up have the same types
        run(make_pipeline(columns, LogisticRegression()).fit(frame, LABELS), frame)


def test_categories_that_the_estimator_asks_for_by_type() -> None:
    frame = FRAMES["categories"]()[["age", "city"]]
    fitted = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2).fit(frame, LABELS)
    run(fitted, frame)


def test_functions_get_the_types_that_they_know(write_module: Write) -> None:
    """Points of time, categories and pandas' own numbers come back as such."""
    module = write_module(
        """
        import pandas

        def features(frame):
            return pandas.DataFrame({
                "day": frame["when"].dt.hour.fillna(-1).astype(float),
                "zone": frame["there"].dt.hour.astype(float),
                "took": frame["took"].dt.total_seconds(),
                "code": frame["city"].cat.codes.astype(float),
                "known": frame["kids"].isna().astype(float) * (frame["kids"].dtype == "Int64"),
            })
        """
    )
    when = pandas.Series(pandas.date_range("2024-01-01", periods=ROWS, freq="7h"))
    frame = pandas.DataFrame(
        {
            "when": when.where(when.index % 7 != 0),
            "there": when.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
            "took": pandas.to_timedelta(np.arange(ROWS), unit="s"),
            "city": pandas.Categorical(["c", "b", "a", "a", None] * 6, ["c", "a", "b"]),
            "kids": pandas.array([None, 2, 3, 2, 1] * 6, dtype="Int64"),
            "dropped": [{}, 1, "a", (), None] * 6,
        }
    )
    used = ["when", "there", "took", "city", "kids"]
    features = FunctionTransformer(importlib.import_module(module).features)
    columns = make_column_transformer((features, used))
    fitted = make_pipeline(columns, StandardScaler(), LogisticRegression()).fit(frame, LABELS)
    session = run(fitted, frame[used], [module])
    with pytest.raises(opgraft.Error, match="column 'when' has float64, but .* of time"):
        session.run(None, frame[used].assign(when=1.0))
    opgraft.sklearn.to_onnx(fitted, frame)
    fitted = make_pipeline(features, LogisticRegression()).fit(frame, LABELS)
    with pytest.raises(opgraft.Error, match="column 'dropped' has values of several types"):
        opgraft.sklearn.to_onnx(fitted, frame)


@pytest.fixture(scope="module")
def scaled() -> tuple[Any, Any, Any]:
    frame = passengers()[["fare", "kids"]].fillna(0)
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, LABELS)
    by_columns = opgraft.sklearn.to_onnx(fitted, frame)
    matrix = opgraft.sklearn.to_onnx(
        fitted, frame, initial_types=[("X", FloatTensorType([None, 2]))]
    )
    sessions = [opgraft.InferenceSession(one) for one in (by_columns, matrix)]
    return fitted, frame, sessions


def test_a_frame_is_fed_by_names(scaled: Any) -> None:
    """Whether each column is an input, or all are one; in any order."""
    fitted, frame, sessions = scaled
    for session in sessions:
        for rows in (frame, frame[["kids", "fare"]]):
            for feed in (rows, {"X": rows}):
                label, _ = session.run(None, feed)
                np.testing.assert_array_equal(label, fitted.predict(frame))
    label, _ = sessions[0].run(None, {"fare": frame["fare"], "kids": frame[["kids"]]})
    np.testing.assert_array_equal(label, fitted.predict(frame))


def test_columns_that_are_missing_or_too_many_are_named(scaled: Any) -> None:
    _, frame, sessions = scaled
    for session in sessions:
        for feed in (lambda rows: rows, lambda rows: {"X": rows}):
            with pytest.raises(opgraft.Error, match="it lacks 'kids'; it also has 'children'"):
                session.run(None, feed(frame.rename(columns={"kids": "children"})))
            with pytest.raises(opgraft.Error, match="also has 'id'. Fix: frame.*'fare', 'kids'"):
                session.run(None, feed(frame.assign(id=1)))
            twice = frame.set_axis(["fare", "fare"], axis=1)
            with pytest.raises(opgraft.Error, match="lacks 'kids'; it has more than once 'fare'"):
                session.run(None, feed(twice))


def test_values_that_the_model_cannot_take_are_refused() -> None:
    frame = pandas.DataFrame({"city": ["a", "b", "c"] * 10, "kids": np.arange(ROWS)})
    columns = make_column_transformer((OneHotEncoder(), ["city"]), (StandardScaler(), ["kids"]))
    fitted = make_pipeline(columns, LogisticRegression()).fit(frame, LABELS)
    session = opgraft.InferenceSession(opgraft.sklearn.to_onnx(fitted, frame))
    session.run(None, frame.astype({"kids": "Float64", "city": "category"}))
    for column, values, message in [
        ("city", 1, "column 'city' has int64, but the model expects texts"),
        ("kids", "1", "column 'kids' has text, but the model expects numbers .int64."),
        ("kids", [np.nan, *range(29)], "column 'kids' has missing values"),
        ("kids", 1.5, "column 'kids' has float64 values that do not fit int64"),
        ("kids", pandas.Timestamp("2024-01-01"), "column 'kids' has dates"),
    ]:
        with pytest.raises(opgraft.Error, match=message):
            session.run(None, frame.assign(**{column: values}))
