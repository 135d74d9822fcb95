"""Tampers with every attribute of every estimator of scikit-learn, one at a time, and runs it.

What loads is run in a process of its own, with tests/fence.c around each array, so that a read or
write beyond one ends the process. Each line that this prints is such an end: a check that is
missing in python/opgraft/sklearn/_stored/_owners.py, or a lack of memory that docs/security.md
names. Not part of `make test`: it takes some minutes.

    python tests/sklearn/hostile_estimators.py --only Neighbors
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"

import fitted_estimators  # noqa: E402
import numpy as np  # noqa: E402

from opgraft.sklearn._stored import _skops, _unpack  # noqa: E402
from opgraft.sklearn._stored._walk import walk  # noqa: E402
from opgraft.sklearn.operators import METHODS  # noqa: E402

Change = tuple[int, str, Any]  #: the number of the object in a walk, its attribute, another value

MANY = 200  #: that one process runs: fences are pages, and a process has not endlessly many
SECONDS = 10  #: that one estimator may take for its few rows


def variants() -> dict[str, Any]:
    """Estimators whose options lead to other compiled code than the default ones do."""
    import scipy.sparse
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import (
        KNeighborsClassifier,
        KNeighborsRegressor,
        LocalOutlierFactor,
        NearestNeighbors,
        RadiusNeighborsClassifier,
        RadiusNeighborsRegressor,
    )
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures
    from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM

    X, unseen, y, _ = fitted_estimators.FLOWERS
    texts = fitted_estimators.TEXTS
    words = np.array([["red", "a"], ["green", "b"], ["blue", "a"], ["red", "b"]] * 5, dtype=object)
    sparse = scipy.sparse.csr_matrix(X)
    inverse = {"VI": np.eye(X.shape[1])}
    brute: dict[str, Any] = {"algorithm": "brute"}
    found = {
        "brute KNeighborsClassifier": KNeighborsClassifier(**brute).fit(X, y),
        "manhattan KNeighborsClassifier": KNeighborsClassifier(**brute, metric="manhattan").fit(
            X, y
        ),
        "manhattan RadiusNeighborsClassifier": RadiusNeighborsClassifier(
            9.0, **brute, outlier_label=0, metric="manhattan"
        ).fit(X, y),
        "brute KNeighborsClassifier of two": KNeighborsClassifier(**brute).fit(
            X, np.stack([y, y], 1)
        ),
        "brute KNeighborsRegressor": KNeighborsRegressor(**brute, metric="manhattan").fit(X, y),
        "brute NearestNeighbors": NearestNeighbors(**brute, metric="minkowski", p=3).fit(X),
        "mahalanobis NearestNeighbors": NearestNeighbors(
            **brute, metric="mahalanobis", metric_params=inverse
        ).fit(X),
        "brute RadiusNeighborsClassifier": RadiusNeighborsClassifier(
            9.0, **brute, outlier_label=0
        ).fit(X, y),
        "brute RadiusNeighborsRegressor": RadiusNeighborsRegressor(9.0, **brute).fit(X, y),
        "brute LocalOutlierFactor": LocalOutlierFactor(novelty=True, **brute).fit(X),
        "sparse KNeighborsClassifier": KNeighborsClassifier().fit(sparse, y),
        "sparse SVC": SVC(probability=True).fit(sparse, y),
        "sparse SVR": SVR().fit(sparse, y),
        "sparse NuSVC": NuSVC(kernel="linear").fit(sparse, y),
        "precomputed SVC": SVC(kernel="precomputed").fit(X @ X.T, y),
        "precomputed OneClassSVM": OneClassSVM(kernel="precomputed").fit(X @ X.T),
        "SVC of probabilities": SVC(probability=True).fit(X, y),
        "GradientBoostingClassifier of two": GradientBoostingClassifier(n_estimators=3).fit(
            X, y > 0
        ),
        "forest of two": RandomForestClassifier(3).fit(X, np.stack([y, y > 1], 1)),
        "rare OneHotEncoder": OneHotEncoder(
            min_frequency=6, handle_unknown="infrequent_if_exist"
        ).fit(words),
        "dense OneHotEncoder": OneHotEncoder(drop="first", sparse_output=False).fit(words),
        "polynomials of OneHotEncoder": make_pipeline(OneHotEncoder(), PolynomialFeatures()).fit(
            words
        ),
        "regression of TfidfVectorizer": make_pipeline(
            TfidfVectorizer(), LogisticRegression()
        ).fit(texts, np.arange(len(texts)) % 2),
    }  # fmt: skip
    rows = dict.fromkeys(found, unseen)
    rows |= {name: unseen @ X.T for name in found if name.startswith("precomputed")}
    rows |= {name: words[:5] for name in found if name.endswith("OneHotEncoder")}
    rows["regression of TfidfVectorizer"] = texts[:5]
    return {name: (estimator, rows[name]) for name, estimator in found.items()}


def tampered(value: Any) -> Iterator[Any]:
    """Other values for an attribute that has this one."""
    if isinstance(value, np.ndarray) and value.dtype != object and value.dtype.names is None:
        yield value[:0]
        if value.ndim:
            yield from (value[:1], np.repeat(value, 50, axis=0), value[None], value[::-1][::2])
        if value.ndim > 1:
            yield from (value[:, :1], value[:, :0], np.repeat(value, 50, axis=1), value.T)
            yield np.asfortranarray(value)
        yield np.zeros(3)
        if value.dtype.kind in "iuf":
            for number in (-1, 2, 10**6, 2**31 - 1, -(2**31), 2**62, -(2**62)):
                yield (
                    (np.zeros_like(value) + number)
                    if value.dtype.kind == "f"
                    else (np.full(value.shape, number).astype(value.dtype))
                )
            for dtype in (np.float32, np.float64, np.int32, np.int64, np.uint8):
                if dtype != value.dtype:
                    yield value.astype(dtype)
    elif isinstance(value, np.ndarray):
        yield from (value[:0], value[:1], np.repeat(value, 3, axis=0))
        if value.ndim > 1:
            yield from (value[:, :1], np.repeat(value, 3, axis=1))
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, np.integer)):
        yield from (-1, 0, 1, 2, int(value) + 1, int(value) + 1000, 2**31 - 1, 2**40, -(2**31))
        yield 1.5
    elif isinstance(value, (float, np.floating)):
        yield from (-1.0, 0.0, float("nan"), float("inf"), 1e300, 7)
    elif isinstance(value, (list, tuple)):
        kind = type(value)
        yield from (kind(), value[:1], kind([*value] * 3))
        for index, one in list(enumerate(value))[:2]:
            for other in tampered(one):
                yield kind([*value[:index], other, *value[index + 1 :]])
    elif isinstance(value, dict):
        yield {}
        for key in list(value)[:2]:
            for other in tampered(value[key]):
                yield {**value, key: other}
    elif isinstance(value, str):
        yield from ("precomputed", "brute", "kd_tree", "nonsense", "minkowski", "mahalanobis")
    yield from (None, np.zeros((2, 2)), np.zeros((500, 500)), 5, "text")


def cases(estimator: Any) -> Iterator[tuple[str, Change]]:
    """What is changed, in words and as such."""
    seen: set[Any] = set()
    for number, place in enumerate(walk(estimator)):
        kind = type(place.value)
        is_object = hasattr(place.value, "__dict__") and not isinstance(place.value, dict)
        if not is_object or not kind.__module__.startswith(("sklearn.", "opgraft.")):
            continue
        if kind in seen:
            continue
        seen.add(kind)
        for name, value in list(vars(place.value).items()):
            for index, other in enumerate([*tampered(value), tampered]):
                if other is tampered:
                    what = "is not there"
                else:
                    what = repr(other).replace("\n", " ")[:60]
                    what += f" {getattr(other, 'dtype', '')} {getattr(other, 'shape', '')}"
                yield f"{kind.__name__}.{name} [{index}] {what}", (number, name, other)


def fence(is_on: bool) -> None:
    if hasattr(ctypes.CDLL(None), "fence_enable"):
        ctypes.CDLL(None).fence_enable(int(is_on), 0x7B)


def run(estimator: Any, change: Change, X: Any) -> str:
    """Loads the estimator with a change and runs it, and says what became of it."""
    number, name, other = change
    fence(True)
    try:
        changed = copy.deepcopy(estimator)
        owner = list(walk(changed))[number].value
        if other is tampered:
            delattr(owner, name)
        else:
            setattr(owner, name, copy.deepcopy(other))
        try:
            loaded = _skops._fenced(changed, [], _allow, _unpack.FREE)
        except Exception as error:  # of which `load` makes ours
            return f"refused: {error}"
        rows = [copy.copy(X)]
        width = vars(loaded).get("n_features_in_")
        is_width = isinstance(width, int) and 0 < width < 10**5
        if is_width and isinstance(X, np.ndarray) and X.ndim == 2:
            rows.append(np.resize(X, (len(X), width)))
        problem = "ran"
        for X in rows:
            for method in METHODS:
                try:
                    result = getattr(loaded, method)(copy.copy(X))
                    if hasattr(result, "toarray"):
                        result.toarray()
                except Exception as error:
                    problem = f"raised {type(error).__name__}: {error}"
        return problem
    finally:
        fence(False)


def _allow(names: list[str]) -> None:
    pass


def attack(name: str, fitted: Any, is_loud: bool) -> int:
    """All changes to one estimator; how many of them end the process."""
    estimator, X = fitted
    X = X[:7]
    stored = _skops._without_compiled(estimator)
    everything = list(cases(stored))
    ends, first = 0, 0
    while first < len(everything):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_AS, (100 << 30, 100 << 30))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            warnings.simplefilter("ignore")
            np.seterr(all="ignore")
            for stream in (2,) if is_loud else (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            for index in range(first, min(first + MANY, len(everything))):
                os.write(writer, f"{index}\n".encode())
                signal.alarm(SECONDS)
                outcome = run(stored, everything[index][1], X)
                if is_loud:
                    print(name, everything[index][0], outcome, flush=True)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as stream:
            begun = stream.read().split()
        _, status = os.waitpid(child, 0)
        if status == 0:
            first += MANY
            continue
        index = int(begun[-1]) if begun else first
        ending = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else status
        print(f"{name}: {everything[index][0]}: {ending}", flush=True)
        ends += 1
        first = index + 1
    return ends


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a pattern of the estimators' names")
    parser.add_argument("--loud", action="store_true", help="says what became of each")
    arguments = parser.parse_args()
    if "fence" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory() as folder:
            library, source = Path(folder) / "fence.so", Path(__file__).parents[1] / "fence.c"
            command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
            subprocess.run(command, check=True)
            environment = {**os.environ, "LD_PRELOAD": str(library)}
            return subprocess.run([sys.executable, *sys.argv], env=environment).returncode
    ends = 0
    for name, fitted in variants().items():
        if re.search(arguments.only, name):
            ends += attack(name, fitted, arguments.loud)
    for name in fitted_estimators.classes():
        if re.search(arguments.only, name):
            ends += attack(name, fitted_estimators.fit(name), arguments.loud)
    print(f"{ends} ends of the process")
    return int(ends > 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
