"""What tests of opgraft.sklearn share: data to fit to, and hosts that allow nothing or anything."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import onnx
from onnx import numpy_helper
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


def of_a_stranger(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the same estimators, in files that this process has not written."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for node in changed.graph.node:
        for attribute in node.attribute:
            if attribute.name == "estimator":
                data = io.BytesIO(numpy_helper.to_array(attribute.t).tobytes())
                with zipfile.ZipFile(data, "a") as archive:
                    archive.comment = b"a stranger's"
                values = np.frombuffer(data.getvalue(), np.uint8)
                attribute.t.CopyFrom(numpy_helper.from_array(values))
    return changed
