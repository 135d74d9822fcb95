"""opgraft.sklearn.convert_sklearn: the converter example of document 001, and add_pyop."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")

import skl2onnx
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import NMF

import opgraft
import opgraft.sklearn
from conftest import SEEDS, Write


def document() -> list[str]:
    if not SEEDS.is_dir():
        pytest.skip(f"the documents are not here: {SEEDS.parent.name}/{SEEDS.name}")
    (path,) = SEEDS.glob("001_*.txt")
    blocks = re.findall(r"```python(.*?)```", path.read_text(), re.S)
    return [block.strip() for block in blocks]


def test_the_example_of_the_document(
    module_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its text, but for one typo, the import that it forgets, and where the converter is from."""
    example = document()[2]
    for there, here in (
        ("with th open", "with open"),
        ("from skl2onnx import convert_sklearn", "from opgraft.sklearn import convert_sklearn"),
    ):
        assert example.count(there) == 1
        example = example.replace(there, here)
    module_folder.joinpath("mymodule.py").write_text(document()[3])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mymodule", raising=False)  # that of the examples
    names: dict[str, Any] = {"NMF": NMF}
    exec(example, names)
    model = onnx.load("model.onnx")
    assert {one.domain: one.version for one in model.opset_import}["MyDomain"] == 10
    session = opgraft.InferenceSession("model.onnx", allow=["mymodule"])
    (result,) = session.run(None, {"X": names["X"]})
    np.testing.assert_allclose(result, names["W"], rtol=1e-6)


def test_what_was_changed_is_put_back() -> None:
    from skl2onnx.common._container import ModelComponentContainer

    before = ModelComponentContainer.add_node

    def convert(scope: Any, operator: Any, container: Any) -> None:
        assert ModelComponentContainer.add_node is not before
        raise ZeroDivisionError

    types = [("X", FloatTensorType([None, 2]))]
    with pytest.raises(ZeroDivisionError):
        opgraft.sklearn.convert_sklearn(
            Shift(),
            initial_types=types,
            custom_conversion_functions={Shift: convert},
            custom_shape_calculators={Shift: lambda operator: None},
        )
    assert ModelComponentContainer.add_node is before


class Shift(TransformerMixin, BaseEstimator):
    def fit(self, X: Any, y: Any = None) -> Shift:
        self.shift_ = X.mean(0)
        return self

    def transform(self, X: Any) -> Any:
        return X - self.shift_


def test_add_pyop(write_module: Write) -> None:
    module = write_module("""
        class Shift:
            def __init__(self, by, title, times):
                assert title == "shift" and times == 1
                self.by = by
            def compute(self, x):
                return (x - self.by).astype(x.dtype)
    """)
    X = np.float32([[1, 2], [3, 5]])
    fitted = Shift().fit(X)

    def shapes(operator: Any) -> None:
        operator.outputs[0].type = type(operator.inputs[0].type)([None, 2])

    def convert(scope: Any, operator: Any, container: Any) -> None:
        opgraft.sklearn.add_pyop(
            scope, operator, container, module, "Shift",
            by=operator.raw_operator.shift_, title="shift", times=np.int64(1),
        )  # fmt: skip

    for of_type, dtype in ((FloatTensorType, np.float32), (Int64TensorType, np.int64)):
        model = opgraft.sklearn.convert_sklearn(
            fitted,
            initial_types=[("X", of_type([None, 2]))],
            custom_conversion_functions={Shift: convert},
            custom_shape_calculators={Shift: shapes},
        )
        onnx.checker.check_model(model)
        session = opgraft.InferenceSession(model, allow=[module])
        (result,) = session.run(None, {"X": X.astype(dtype)})
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, (X - fitted.shift_).astype(dtype))


def test_add_pyop_refuses_the_names_of_its_own() -> None:
    with pytest.raises(opgraft.Error, match="output_types"):
        opgraft.sklearn.add_pyop(None, None, None, "m", "C", output_types=[1])


def test_without_custom_nodes_it_is_as_skl2onnx() -> None:
    from sklearn.linear_model import LinearRegression

    fitted = LinearRegression().fit(np.eye(3), [1, 2, 3])
    types = [("X", FloatTensorType([None, 3]))]
    ours = opgraft.sklearn.convert_sklearn(fitted, "name", types)
    assert ours == skl2onnx.convert_sklearn(fitted, "name", types)


def test_opgraft_alone_does_not_import_sklearn() -> None:
    code = "import sys, opgraft\nopgraft.InferenceSession\nprint('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
