"""What tests of opgraft.sklearn share: data to fit to, and hosts that allow nothing or anything."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_iris

import opgraft

X, y = load_iris(return_X_y=True)
X = X.astype(np.float32)
#: For logistic regressions, which do not converge on it by default.
LOGISTIC = {"max_iter": 300}


def nobody(names: list[str]) -> None:
    raise opgraft.PolicyError(f"asked for {names}")


def anybody(names: list[str]) -> None:
    pass
