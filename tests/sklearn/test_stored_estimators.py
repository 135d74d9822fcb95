"""What is stored in a model and what loads of it: without asking, when asked, and never."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import pickle
import subprocess
import sys
import warnings
import zipfile
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install opgraft[sklearn]")
skops_io = pytest.importorskip(
    "skops.io", reason="skops is not installed: pip install opgraft[sklearn]"
)

import sklearn  # noqa: E402
from iris_data import X, anybody, nobody, of_a_stranger, y  # noqa: E402
from sklearn.cluster import Birch  # noqa: E402
from sklearn.decomposition import NMF  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer  # noqa: E402
from sklearn.feature_selection import SelectKBest, mutual_info_classif  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.metrics.pairwise import rbf_kernel  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.neighbors import KernelDensity, NearestNeighbors  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    FunctionTransformer,
    SplineTransformer,
    normalize,
)
from sklearn.svm import SVC  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

import opgraft  # noqa: E402
import opgraft.sklearn  # noqa: E402
from conftest import Write  # noqa: E402
from opgraft.sklearn._stored import _skops, _trusted  # noqa: E402
from opgraft.sklearn.operators import Estimator  # noqa: E402


def node_of(model: onnx.ModelProto) -> onnx.NodeProto:
    (node,) = (one for one in model.graph.node if one.op_type == "PyOp")
    return node


def change(model: onnx.ModelProto, **attributes: Any) -> onnx.ModelProto:
    """The model with other attributes in its Python node."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    node = node_of(changed)
    kept = [one for one in node.attribute if one.name not in attributes]
    del node.attribute[:]
    node.attribute.extend(kept)
    for name, value in attributes.items():
        if isinstance(value, bytes):
            value = numpy_helper.from_array(np.frombuffer(value, np.uint8))
        node.attribute.append(onnx.helper.make_attribute(name, value))
    return changed


@pytest.fixture(scope="module")
def nmf() -> onnx.ModelProto:
    return opgraft.sklearn.to_onnx(NMF(2, max_iter=900).fit(X), X)


@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(),
        RandomForestClassifier(3),
        GradientBoostingRegressor(n_estimators=3),
        HistGradientBoostingRegressor(max_iter=3),
        IsolationForest(n_estimators=3),
        IsolationForest(n_estimators=3, max_features=2),
        NearestNeighbors(algorithm="kd_tree"),
        NearestNeighbors(algorithm="ball_tree", metric="minkowski", p=3),
        KernelDensity(),
        SplineTransformer(),
        Birch(),
    ],
)
def test_compiled_types_load_without_asking(estimator: Any) -> None:
    fitted = estimator.fit(X, y)
    data = _skops.dump(fitted)
    assert _skops.untrusted(data) == []
    loaded = _skops.load(data, nobody)
    for method in ("predict", "transform", "score_samples", "kneighbors"):
        if hasattr(fitted, method):
            for got, wanted in zip(
                getattr(loaded, method)(X), getattr(fitted, method)(X), strict=True
            ):
                np.testing.assert_array_equal(got, wanted)


def test_a_bare_tree_is_not_trusted() -> None:
    """skops does not trust it, and we do not either: it would be made of unchecked memory."""
    data = skops_io.dumps(DecisionTreeClassifier().fit(X, y))
    with pytest.raises(opgraft.ModelError, match="sklearn.tree._tree.Tree"):
        _skops.load(data, anybody)
    assert not [name for name in _trusted.NAMES if name.endswith((".Tree", "KDTree", "BallTree"))]


def test_what_is_trusted_is_of_libraries_that_compute() -> None:
    """A name of another module, such as os.system, would be any model's to load."""
    others = "numpy.mean numpy.median numpy.dtype collections.OrderedDict functools.partial".split()
    for name in _trusted.NAMES:
        is_computing = name.startswith(("sklearn.", "opgraft.sklearn._stored.Stored"))
        assert is_computing or name in others, name


def test_functions_that_are_trusted_call_and_start_nothing() -> None:
    """Their arguments come from the model too."""
    for name in _trusted.NAMES:
        module, _, attribute = name.rpartition(".")
        found = getattr(importlib.import_module(module), attribute, None)
        if inspect.isfunction(found):
            parameters = set(inspect.signature(found).parameters)
            if "mutual_info" in name:  # threads; of the fitting alone
                parameters.discard("n_jobs")
            assert not parameters & {"n_jobs", "func", "metric", "metric_func", "memory"}, name


@pytest.mark.parametrize(
    "estimator",
    [
        SelectKBest(partial(mutual_info_classif, random_state=0), k=2),
        FunctionTransformer(partial(normalize, norm="l1")),
        FunctionTransformer(kw_args=OrderedDict(), func=partial(partial(np.power, 2.0))),
        SVC(kernel=rbf_kernel),
        GridSearchCV(LogisticRegression(max_iter=900), {"C": [1.0]}, cv=2, scoring="roc_auc_ovr"),
    ],
)
def test_reviewed_functions_and_partials_load_without_asking(estimator: Any) -> None:
    loaded = _skops.load(_skops.dump(estimator.fit(X, y)), nobody)
    method = "predict" if hasattr(estimator, "predict") else "transform"
    results = [np.asarray(getattr(one, method)(X.copy())) for one in (loaded, estimator)]
    np.testing.assert_array_equal(*results)


def test_it_is_never_a_pickle(nmf: onnx.ModelProto, tmp_path: Path) -> None:
    (tensor,) = (one.t for one in node_of(nmf).attribute if one.name == "estimator")
    data = numpy_helper.to_array(tensor).tobytes()
    assert zipfile.is_zipfile(io.BytesIO(data))
    mark = tmp_path / "was_here"

    class Attack:
        def __reduce__(self) -> Any:
            return (mark.write_text, ("x",))

    for attack in (pickle.dumps(Attack()), b"", b"PK\x03\x04", data[:-40]):
        with pytest.raises(opgraft.PyOpError, match="damaged"):
            opgraft.InferenceSession(change(nmf, estimator=attack), allow=["sklearn", "builtins.*"])
    assert not mark.exists()
    # In an array too.
    array = np.array([Attack()], dtype=object)
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    poisoned = rewrite(data, {next(n for n in names if n.endswith(".npy")): buffer.getvalue()})
    with pytest.raises(opgraft.PyOpError, match="allow_pickle"):
        opgraft.InferenceSession(change(nmf, estimator=poisoned), allow=["sklearn"])
    assert not mark.exists()


def rewrite(data: bytes, replaced: dict[str, bytes]) -> bytes:
    """A skops file with other contents."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(result, "w") as new:
        for name in old.namelist():
            new.writestr(name, replaced.get(name, old.read(name)))
    return result.getvalue()


def schema(data: bytes) -> Any:
    return json.loads(zipfile.ZipFile(io.BytesIO(data)).read("schema.json"))


USERS = """
    from os import system
    import pathlib
    from sklearn.base import BaseEstimator, TransformerMixin

    pathlib.Path(__file__).with_name("imported").touch()

    def half(X):
        return X / 2

    class Half(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            self.fitted_ = True
            return self
        def transform(self, X):
            return X / 2
"""


def test_what_is_a_users_is_asked_for_by_name(write_module: Write, module_folder: Path) -> None:
    import importlib

    module = write_module(USERS)
    users = importlib.import_module(module)
    for step, name in ((FunctionTransformer(users.half), "half"), (users.Half(), "Half")):
        model = opgraft.sklearn.to_onnx(make_pipeline(step, NMF(2, max_iter=900)).fit(X), X)
        opgraft.InferenceSession(model)  # this process made it, of its own types
        model = of_a_stranger(model)
        for allow in ([], ["other"], [f"{module}.Other"]):
            with pytest.raises(opgraft.PolicyError, match=rf'allow=\["{module}.{name}"\]'):
                opgraft.InferenceSession(model, allow=["sklearn", *allow])
        for allow in ([module], [f"{module}.{name}"], [f"{module}.*"]):
            opgraft.InferenceSession(model, allow=["sklearn", *allow])
            with pytest.raises(opgraft.PolicyError, match=r'allow=\["sklearn"\]'):
                opgraft.InferenceSession(model, allow=allow)


def test_a_refusal_comes_before_any_import(
    write_module: Write, module_folder: Path, tmp_path: Path
) -> None:
    import importlib

    module = write_module(USERS)
    users = importlib.import_module(module)
    model = opgraft.sklearn.to_onnx(FunctionTransformer(users.half).fit(X), X)
    onnx.save(model, tmp_path / "model.onnx")
    (module_folder / "imported").unlink()
    code = f"""
import opgraft, sys
sys.path.insert(0, {str(module_folder)!r})
try:
    opgraft.InferenceSession({str(tmp_path / "model.onnx")!r}, allow=["sklearn"])
except opgraft.PolicyError as error:
    print("refused", {module!r} in sys.modules, {module!r} in str(error))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "refused False True"
    assert not (module_folder / "imported").exists()


def test_an_allowed_module_does_not_lend_what_it_imports(write_module: Write) -> None:
    import importlib

    module = write_module(USERS)
    users = importlib.import_module(module)
    model = opgraft.sklearn.to_onnx(FunctionTransformer(users.half).fit(X), X)
    (tensor,) = (one.t for one in node_of(model).attribute if one.name == "estimator")
    data = numpy_helper.to_array(tensor).tobytes()
    text = json.dumps(schema(data)).replace('"half"', '"system"')
    poisoned = rewrite(data, {"schema.json": text.encode()})
    with pytest.raises(opgraft.PolicyError, match="posix.system|nt.system"):
        opgraft.InferenceSession(change(model, estimator=poisoned), allow=["sklearn", module])
    text = json.dumps(schema(data)).replace('"half"', '"pathlib"')
    poisoned = rewrite(data, {"schema.json": text.encode()})
    with pytest.raises(opgraft.PyOpError, match="is a module"):
        opgraft.InferenceSession(change(model, estimator=poisoned), allow=["sklearn", module])


def test_a_model_cannot_answer_for_the_host(nmf: onnx.ModelProto) -> None:
    with pytest.raises(opgraft.ModelError, match="'allows', which only the host may give"):
        opgraft.InferenceSession(change(nmf, allows="yes"))
    with pytest.raises(opgraft.PolicyError, match="not allow"):
        Estimator(
            np.frombuffer(skops_io.dumps(FunctionTransformer(print)), np.uint8),
            ["transform"], ["float32"], [2], sklearn.__version__,
        )  # fmt: skip


@pytest.mark.parametrize(
    "attributes, message",
    [
        ({"methods": ["__init__"]}, "a model may not call the method"),
        ({"methods": ["fit"]}, "a model may not call the method"),
        ({"methods": ["transform", "transform"]}, "do not agree"),
        ({"dtypes": ["complex64"]}, "is not a type of results"),
        ({"layout": "pickle"}, "do not agree"),
        ({"missing": "nan nil"}, "expected only values from: <NA>, None, nan"),
        ({"format": 2}, "format 2"),
    ],
)
def test_other_attributes(nmf: onnx.ModelProto, attributes: Any, message: str) -> None:
    with pytest.raises(opgraft.PyOpError, match=message):
        opgraft.InferenceSession(change(nmf, **attributes))


def test_our_module_runs_nothing_but_its_class(nmf: onnx.ModelProto) -> None:
    """Its allowance, or that of what this process made, is for that class alone."""
    for allow in ([], ["sklearn"]):
        for name in ("ModelError", "Sequence", "Any", "np.load"):
            with pytest.raises(opgraft.Error) as caught:
                opgraft.InferenceSession(change(nmf, class_name=name), allow=allow)
            assert "not allow" in str(caught.value) or "expected" in str(caught.value)
        with pytest.raises(opgraft.PolicyError):
            opgraft.InferenceSession(
                change(nmf, module="opgraft.sklearn._stored._skops"), allow=allow
            )


def test_files_are_not_read() -> None:
    vectorizer = CountVectorizer(input="filename", vocabulary={"root": 0})
    data = _skops.dump(CountVectorizer(vocabulary={"root": 0}))
    assert _skops.load(data, nobody).input == "content"
    with pytest.raises(opgraft.PolicyError, match="would read files"):
        _skops.load(skops_io.dumps(vectorizer), nobody)


def test_another_version_warns(nmf: onnx.ModelProto) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opgraft.InferenceSession(nmf)
    with pytest.warns(RuntimeWarning, match=r"fitted with scikit-learn 1\.2\.0.*==1\.2\.0"):
        opgraft.InferenceSession(change(nmf, scikit_learn="1.2.0"))


def test_another_version_that_cannot_be_read(nmf: onnx.ModelProto) -> None:
    (tensor,) = (one.t for one in node_of(nmf).attribute if one.name == "estimator")
    data = numpy_helper.to_array(tensor).tobytes()
    text = json.dumps({**schema(data), "protocol": 99}).encode()
    newer = change(nmf, estimator=rewrite(data, {"schema.json": text}), scikit_learn="9.9")
    with pytest.raises(opgraft.PyOpError, match=r"pip install scikit-learn==9\.9") as caught:
        opgraft.InferenceSession(newer, allow=["sklearn"])
    assert isinstance(caught.value.__cause__, opgraft.UnavailableError)


def test_an_older_estimator_without_a_parameter() -> None:
    """One that a newer scikit-learn has added: that alone is no damage."""
    older = LogisticRegression(max_iter=900).fit(X, y)
    del older.verbose
    with pytest.warns(RuntimeWarning, match=r"scikit-learn==1\.2\.0"):
        loaded = _skops.load(skops_io.dumps(older), nobody, "1.2.0")
    assert (loaded.predict(X) == older.predict(X)).all()
    older.C = "many"  # what does not fit may be of another version, and is damage where it is not
    with pytest.raises(opgraft.UnavailableError, match="'C' param.*install scikit-learn==1.2.0$"):
        _skops.load(skops_io.dumps(older), nobody, "1.2.0")
    with pytest.raises(opgraft.ModelError, match="'C' parameter.* get a new copy from its author$"):
        _skops.load(skops_io.dumps(older), nobody, sklearn.__version__)
    tree = _skops._without_compiled(DecisionTreeClassifier().fit(X, y))
    tree.tree_.values = tree.tree_.values[:1]
    with pytest.raises(opgraft.UnavailableError, match=r"pip install scikit-learn==1\.2\.0$"):
        _skops.load(skops_io.dumps(tree), nobody, "1.2.0")


def test_a_report_of_a_damaged_model(nmf: onnx.ModelProto) -> None:
    """It reads what a session would, and no more: no loaders of an older format."""
    (tensor,) = (one.t for one in node_of(nmf).attribute if one.name == "estimator")
    data = numpy_helper.to_array(tensor).tobytes()
    older = rewrite(data, {"schema.json": json.dumps({**schema(data), "protocol": 1}).encode()})
    for broken in (b"", b"PK\x03\x04", data[:-40], older, rewrite(data, {"schema.json": b"[]"})):
        with pytest.raises(opgraft.ModelError, match="damaged"):
            opgraft.sklearn.python_steps(change(nmf, estimator=broken))
        with pytest.raises(opgraft.UnavailableError, match="scikit-learn==1.2.0"):
            opgraft.sklearn.python_steps(change(nmf, estimator=broken, scikit_learn="1.2.0"))
    for name in ("estimator", "title", "methods", "because", "scikit_learn"):
        changed = change(nmf, **{name: 1})
        with pytest.raises(opgraft.ModelError, match=f"node '.*'.*'{name}'"):
            opgraft.sklearn.python_steps(changed)
        node = node_of(changed)
        kept = [one for one in node.attribute if one.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
        with pytest.raises(opgraft.ModelError, match=f"node '.*'.*'{name}'"):
            opgraft.sklearn.python_steps(changed)


def test_what_skops_cannot_store_is_refused() -> None:
    for function in (lambda X: X, _local()):
        fitted = FunctionTransformer(function).fit(X)
        with pytest.raises(opgraft.UnavailableError, match="cannot be stored.*define it in a mod"):
            opgraft.sklearn.to_onnx(fitted, X)
    held = FunctionTransformer(np.log1p).fit(X)
    held.generator_ = (one for one in ())
    with pytest.raises(opgraft.UnavailableError, match="FunctionTransformer cannot be stored"):
        opgraft.sklearn.to_onnx(held, X)


def _local() -> Any:
    def half(X: Any) -> Any:
        return X

    return half


def half(X: Any) -> Any:
    """Not the one that is local to a function, although of the same name."""
    return X / 2


def test_what_is_of_the_main_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        """
import warnings
import numpy as np, onnx, opgraft, opgraft.sklearn
from sklearn.preprocessing import FunctionTransformer

def half(X):
    return X / 2

X = np.ones((3, 2), np.float32)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = opgraft.sklearn.to_onnx(FunctionTransformer(half).fit(X), X)
assert any("put it into a module" in str(one.message) for one in caught)
onnx.save(model, "model.onnx")
print(opgraft.InferenceSession(model).run(None, {"X": X})[0][0, 0])
"""
    )
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "0.5", done.stderr
    with pytest.raises(opgraft.PyOpError, match="defined in the program that made the model"):
        opgraft.InferenceSession(tmp_path / "model.onnx", allow=["sklearn", "__main__.half"])
