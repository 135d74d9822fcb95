"""Compares a converted pipeline that has one step in Python with the pipeline's own predict.

The Python step does the same work in both. The differences are the other steps, which are native
ONNX in the model, and the call of the step. Called in turn, one thread; microseconds for a call.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import sklearn  # noqa: E402
from sklearn.datasets import make_classification  # noqa: E402
from sklearn.decomposition import FastICA  # noqa: E402
from sklearn.kernel_approximation import Nystroem, RBFSampler  # noqa: E402
from sklearn.kernel_ridge import KernelRidge  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge  # noqa: E402
from sklearn.neighbors import NearestCentroid  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    FunctionTransformer,
    SplineTransformer,
    StandardScaler,
)

import opgraft.sklearn  # noqa: E402

ROWS = (1, 100, 10_000)
PIPELINES: dict[str, Callable[[], Any]] = {
    "SplineTransformer": lambda: (StandardScaler(), SplineTransformer(), Ridge()),
    "FastICA": lambda: (StandardScaler(), FastICA(10, random_state=0), LogisticRegression()),
    "RBFSampler": lambda: (StandardScaler(), RBFSampler(random_state=0), LogisticRegression()),
    "Nystroem": lambda: (StandardScaler(), Nystroem(random_state=0), LogisticRegression()),
    "FunctionTransformer": lambda: (FunctionTransformer(np.tanh), StandardScaler(), Ridge()),
    "NearestCentroid": lambda: (StandardScaler(), NearestCentroid()),
    "KernelRidge": lambda: (StandardScaler(), KernelRidge()),
}


def best(calls: list[Callable[[], Any]], seconds: float = 1.0) -> list[float]:
    """Returns the least time of each, called in turn: other load on the machine only adds to it."""
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end or len(times[0]) < 50:
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    return [min(one) * 1e6 for one in times]


def measure(name: str, rows: int) -> tuple[float, float]:
    X, y = make_classification(n_samples=10_000, n_features=20, random_state=0)
    X = X.astype(np.float32)
    pipeline = make_pipeline(*PIPELINES[name]()).fit(X[:500], y[:500])
    model = opgraft.sklearn.to_onnx(pipeline, X[:50], methods=["predict"])
    assert len(opgraft.sklearn.python_steps(model)) == 1
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = opgraft.InferenceSession(model, options)
    part = X[:rows]
    own, ours = best([lambda: pipeline.predict(part), lambda: session.run(None, {"X": part})])
    return own, ours


def main() -> None:
    print(f"scikit-learn {sklearn.__version__}, ONNX Runtime {onnxruntime.__version__}")
    print("| step in Python | rows | scikit-learn | Opgraft | ratio |\n|---|---|---|---|---|")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in PIPELINES:
            for rows in ROWS:
                own, ours = measure(name, rows)
                print(f"| {name} | {rows:,} | {own:,.0f} | {ours:,.0f} | {ours / own:.2f} |")


if __name__ == "__main__":
    main()
