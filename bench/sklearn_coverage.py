"""How many of scikit-learn's estimators opgraft.sklearn.to_onnx converts correctly, and how.

Each estimator of `all_estimators()` is fitted on a small data set, converted, and run on new rows:
its results are compared with the estimator's own, on other rows than those that the conversion is
verified with. Native models contain no Python node; the others are correct with Python nodes.

    python bench/sklearn_coverage.py --only Regress
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

# The data sets are small: threads would spend their time waiting for each other.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests" / "sklearn"))

import fitted_estimators  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import skl2onnx  # noqa: E402
import sklearn  # noqa: E402
from skl2onnx.common.data_types import (  # noqa: E402
    DictionaryType,
    FloatTensorType,
    StringTensorType,
)

import opgraft.sklearn  # noqa: E402
from opgraft.sklearn._convert import _feed, _methods, _verify  # noqa: E402

# Covariances only have the method mahalanobis: they are converted, but not counted.
UNCOUNTED = ["mahalanobis"]
NATIVE, PYTHON, NONE, WRONG = "native", "Python", "no method for new data", "not converted"


def evaluate(name: str) -> dict[str, Any]:
    """Returns one row of the table: the outcome for an estimator."""
    row: dict[str, Any] = {"name": name}
    started = time.perf_counter()
    estimator, X = fitted_estimators.fit(name)
    try:
        methods = _methods.default_methods(estimator)
    except opgraft.Error:
        return {**row, "stage": NONE}
    row["methods"] = methods
    try:
        row.update(convert(estimator, X, methods))
    except Exception as error:
        row["stage"] = WRONG
        row["error"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        if os.environ.get("TRACE"):
            traceback.print_exc()
    row["seconds"] = round(time.perf_counter() - started, 2)
    return row


def convert(estimator: Any, X: Any, methods: list[str]) -> dict[str, Any]:
    types = None
    if isinstance(X, list) and isinstance(X[0], dict):
        types = [("X", DictionaryType(StringTensorType([1]), FloatTensorType([])))]
    if hasattr(X, "dtype") and X.dtype == np.float64:
        X = X.astype(np.float32)
    # Half of the rows are for the conversion's own verification, the others for ours.
    half = len(X) // 2
    model = opgraft.sklearn.to_onnx(estimator, None if types else X[:half], initial_types=types)
    X = X[half:]
    steps = opgraft.sklearn.python_steps(model)
    if types:
        session = _verify.open_session(model)
        rows = [session.run(None, {"X": one})[0] for one in X]
        outputs = [np.concatenate(rows)]
    else:
        # A model without Python nodes runs in plain ONNX Runtime.
        session = (
            _verify.open_session(model)
            if steps
            else onnxruntime.InferenceSession(
                model.SerializeToString(), providers=["CPUExecutionProvider"]
            )
        )
        fed = _feed.feed(X, _feed.initial_types_of(estimator, X, None))
        outputs = session.run(None, fed)
    held = [one for one in methods if one == methods[0] or one == "predict_proba"]
    wrong = _verify.difference(estimator, held, X, outputs)
    if wrong:
        return {"stage": WRONG, "error": wrong}
    if any(step.allow != ("sklearn",) for step in steps):
        return {"stage": WRONG, "error": f"it needs allow={[step.allow for step in steps]}"}
    if steps:
        return {
            "stage": PYTHON,
            "steps": [step.estimator.rpartition(".")[2] for step in steps],
            "because": steps[0].because,
        }
    return {"stage": NATIVE}


def table(rows: list[dict[str, Any]]) -> str:
    """Returns the table of docs/sklearn.md."""
    lines = ["| estimator | outputs | |", "|---|---|---|"]
    for row in rows:
        if row["stage"] == PYTHON:
            own = row["name"] in row["steps"]
            what = "Python" if own else f"native but for {', '.join(dict.fromkeys(row['steps']))}"
            reason = row["because"]
            if reason.startswith("the runtime "):
                reason = reason.partition(":")[0].replace(" it", " skl2onnx's conversion")
            reason = "" if "has no converter" in reason else f": {reason}"
            what += reason if len(reason) < 140 else reason[:137] + "..."
        else:
            what = row["stage"] + (f": {row['error']}" if row.get("error") else "")
        methods = ", ".join(row.get("methods", ["-"]))
        lines.append(f"| {row['name']} | {methods} | {what} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="estimators whose name contains this")
    parser.add_argument("--names", default="", help="estimators with these names, comma-separated")
    parser.add_argument("--json", default="", help="a file to write the rows to")
    parser.add_argument("--table", action="store_true", help="print the table of the docs")
    arguments = parser.parse_args()
    names = [one for one in fitted_estimators.classes() if arguments.only in one]
    if arguments.names:
        names = arguments.names.split(",")
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            rows.append(evaluate(name))
            if not arguments.table:
                shown = {k: v for k, v in rows[-1].items() if k not in ("name", "stage")}
                print(f"{name:34} {rows[-1]['stage']:24} {shown}", flush=True)
    if arguments.json:
        Path(arguments.json).write_text("".join(json.dumps(row) + "\n" for row in rows))
    if arguments.table:
        print(table(rows))
    counted = [row["stage"] for row in rows if row.get("methods") != UNCOUNTED]
    count = {stage: counted.count(stage) for stage in (NATIVE, PYTHON, WRONG)}
    print(
        f"\nscikit-learn {sklearn.__version__}, skl2onnx {skl2onnx.__version__}, ONNX Runtime "
        f"{onnxruntime.__version__}: {count[NATIVE] + count[PYTHON]} of "
        f"{sum(count.values())} right, {count[NATIVE]} native and {count[PYTHON]} with Python nodes"
    )


if __name__ == "__main__":
    main()
