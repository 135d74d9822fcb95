"""Adds the Python node of a step to a conversion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import FunctionTransformer

from opgraft._base._errors import Error
from opgraft._base._written_here import remember
from opgraft._run._frames import is_frame
from opgraft.sklearn import _private, operators
from opgraft.sklearn._convert import _columns
from opgraft.sklearn._convert._convert_sklearn import as_attribute, element_type
from opgraft.sklearn._convert._methods import Output, floats, takes_list
from opgraft.sklearn._stored import _skops
from opgraft.sklearn._stored._walk import walk


def is_scikit_learns(estimator: Any) -> bool:
    """Whether it belongs to scikit-learn, so that we know how it treats its input."""
    return (type(estimator).__module__ + ".").startswith("sklearn.")


def layout_of(estimator: Any, X: Any) -> tuple[str, list[str]]:
    """Returns the layout of its input, and the names of columns if that is a DataFrame."""
    if is_frame(X) and (_wants_names(estimator) or _columns.needs_frame(X)):
        return "frame", [str(name) for name in X.columns]
    is_list = X is not None and not hasattr(X, "columns") and np.ndim(X) == 1
    return ("list" if is_list or (X is None and takes_list(estimator)) else "rows"), []


def _wants_names(estimator: Any) -> bool:
    for place in walk(estimator):
        value = place.value
        if isinstance(value, (FunctionTransformer, ColumnTransformer)):
            return True
        if hasattr(value, "fit") and not is_scikit_learns(value):
            return True
    return False


def add(
    scope: Any,
    operator: Any,
    container: Any,
    outputs: Sequence[Output],
    X: Any,
    because: str,
) -> None:
    """Adds the node, and a node that joins its outputs if they are declared as one sequence."""
    estimator = operator.raw_operator
    layout, columns = layout_of(estimator, X)
    wants_names = layout == "frame"
    data = _skops.dump(estimator, without="" if wants_names else "feature_names_in_")
    remember(operators.__name__, "estimator", data)
    names = [one.full_name for one in operator.outputs]
    is_sequence = len(outputs) > len(names)
    if is_sequence:
        parts = [scope.get_unique_variable_name("probabilities") for _ in outputs[len(names) - 1 :]]
        _private.add_nodes_of(container, "SequenceConstruct", parts, names[-1:])
        names = [*names[:-1], *parts]
    elif len(outputs) < len(names):
        raise Error(
            f"{type(estimator).__name__} has {len(outputs)} outputs, but {len(names)} are requested"
        )
    container.add_node(
        "PyOp",
        [one.full_name for one in operator.inputs],
        names,
        name=scope.get_unique_operator_name(f"{type(estimator).__name__}_in_Python"),
        op_domain=operators.DOMAIN,
        op_version=1,
        module=operators.__name__,
        class_name=operators.Estimator.__name__,
        input_types=[element_type(one) for one in operator.inputs],
        output_types=[_element(one.dtype) for one in outputs],
        estimator=as_attribute(_skops.as_tensor(data)),
        methods=[one.method for one in outputs],
        dtypes=[one.dtype for one in outputs],
        ranks=[len(one.shape) for one in outputs],
        scikit_learn=sklearn.__version__,
        layout=layout,
        columns=columns or [""],
        **({"kinds": _columns.describe(X)} if wants_names else {}),
        casts=_cast_to(X, floats(operator.inputs)),
        copies=int(_may_write(estimator)),
        missing=_missing_in(X),
        title=f"{type(estimator).__module__}.{type(estimator).__name__}",
        because=because,
        format=operators.FORMAT,
    )


def _may_write(estimator: Any) -> bool:
    """Whether it, or a step in it, may write to its input, which is memory of the runtime."""
    for place in walk(estimator):
        value = place.value
        if isinstance(value, FunctionTransformer):
            if not (value.func is None or isinstance(value.func, np.ufunc)):
                return True
        elif hasattr(value, "fit") and not is_scikit_learns(value):
            return True
    return False


def _missing_in(X: Any) -> str:
    """Returns which missing values its texts have, as strings."""
    if is_frame(X):
        columns = [X.iloc[:, place] for place in range(X.shape[1])]
        parts = [column[column.isna()].to_numpy(dtype=object) for column in columns]
        found = {str(one) for part in parts for one in part}
    else:
        part = np.asarray(X)
        texts = part.ravel().tolist() if part.dtype == object else []
        found = {str(one) for one in texts if one is None or _is_missing(one)}
    return " ".join(sorted(found & operators.MISSING))


def _is_missing(value: Any) -> bool:
    return type(value).__name__ == "NAType" or bool(value != value)


def _cast_to(X: Any, real: str) -> str:
    """Returns the type of real numbers that the step expects, if the model has another."""
    kind = "" if hasattr(X, "columns") else str(np.asarray(X).dtype)
    return kind if kind in ("float32", "float64") and kind != real else ""


def _element(dtype: str) -> int:
    from onnx import TensorProto

    return int(
        {
            "float32": TensorProto.FLOAT,
            "float64": TensorProto.DOUBLE,
            "int64": TensorProto.INT64,
            "bool": TensorProto.BOOL,
            "str": TensorProto.STRING,
        }[dtype]
    )
