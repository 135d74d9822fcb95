"""The attacks themselves: estimators that are fitted honestly, and then tampered with."""

from __future__ import annotations

import copy
import functools
import io
import struct
import zipfile
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.cluster import KMeans
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler
from sklearn.utils import Bunch
from sklearn_attacks import TELLTALE, WORDS, X, attack, rewritten, stored, y

from opgraft.sklearn._stored import _unpack


def fitted(estimator: Any) -> Any:
    return estimator.fit(X, y)


def changed(estimator: Any, **attributes: Any) -> Any:
    estimator = copy.copy(estimator)
    vars(estimator).update(attributes)
    return estimator


LOGISTIC = fitted(LogisticRegression())


@attack("", name="honest")
def honest() -> bytes:
    return stored(LOGISTIC)


# --- methods by the names that stand in the model


@attack("stack_method_ is 'tofile'.*not a method for new|holds a ndarray, which is not an estim")
def stack_writes_a_file() -> bytes:
    """`str` makes a path of the input, and the array is written there."""
    stack = fitted(StackingClassifier([("a", LOGISTIC)], LogisticRegression(), cv=2))
    code = np.array([b"print('owned')"])
    stack = changed(stack, estimators_=[code], stack_method_=["tofile"])
    return stored(make_pipeline(FunctionTransformer(str), stack))


@attack("stack_method_ is 'fit'.*not a method for new data")
def stack_fits() -> bytes:
    stack = fitted(StackingClassifier([("a", LOGISTIC)], LogisticRegression(), cv=2))
    return stored(changed(stack, stack_method_=["fit"]))


@attack("estimators_ holds a ndarray, which is not an estimator")
def stack_of_an_array() -> bytes:
    stack = fitted(StackingClassifier([("a", LOGISTIC)], LogisticRegression(), cv=2))
    return stored(changed(stack, estimators_=[np.zeros(3)]))


@attack("regressor_ holds a Bunch, which does not belong")
def a_dictionary_for_an_estimator() -> bytes:
    target = fitted(TransformedTargetRegressor(LinearRegression()))
    return stored(changed(target, regressor_=Bunch(predict=np.exp)))


@attack("response_method is 'fit'|The 'response_method' parameter")
def threshold_fits() -> bytes:
    """Fitting writes to the cache, and unpickles from it."""
    pipeline = make_pipeline(MinMaxScaler(), LogisticRegression(), memory="cache").fit(X, y > 0)
    threshold = FixedThresholdClassifier(pipeline).fit(X, y > 0)
    return stored(
        threshold,
        lambda one: (
            setattr(one, "response_method", "fit"),
            setattr(one.estimator_, "memory", "cache"),
        ),
    )


@attack("chain_method_ is 'set_params'")
def chain_sets_parameters() -> bytes:
    chain = ClassifierChain(LOGISTIC).fit(X, np.stack([y > 0, y > 1], 1))
    return stored(changed(chain, chain_method_="set_params"))


@attack("importance_getter is '__class__.mro'", "transform")
def importance_of_a_class() -> bytes:
    return stored(changed(fitted(SelectFromModel(LOGISTIC)), importance_getter="__class__.mro"))


@attack("has an attribute 'predict' that replaces one of its class")
def a_method_of_the_models_own() -> bytes:
    return stored(changed(LOGISTIC, predict=np.exp))


@attack("")
def pipeline_with_a_cache() -> bytes:
    """It runs, without its cache."""
    pipeline = fitted(make_pipeline(MinMaxScaler(), LogisticRegression()))
    return stored(pipeline, lambda one: setattr(one, "memory", "cache"))


@attack("")
def as_many_processes_as_it_says() -> bytes:
    bagging = fitted(BaggingClassifier(LOGISTIC, n_estimators=4))
    vote = fitted(VotingClassifier([("b", bagging)]))
    return stored(vote, lambda one: setattr(one.estimators_[0], "n_jobs", 4))


@attack("")
def as_many_threads_as_it_says() -> bytes:
    return stored(changed(fitted(KMeans(3)), _n_threads=100_000))


# --- what is called while the file is read

CALLED = {"__class__": "_kmeans_single_lloyd", "__module__": "sklearn.cluster._kmeans"}


def node_of(schema: Any, attribute: str) -> Any:
    return schema["content"]["content"][attribute]


def called_by(loader: str, **more: Any) -> bytes:
    """The node of an attribute names a function of the trusted list, for its loader to call."""
    arguments = [np.zeros((5000, 50)), np.ones(5000), np.zeros((3, 1))]
    data = stored(changed(LOGISTIC, list=arguments, set={1}, array=np.zeros(3)))

    def change(schema: Any) -> None:
        place = loader.removesuffix("Node").lower().replace("ndarray", "array")
        contents = schema["content"]["content"]
        node = contents.get(place) or dict(contents["list"])
        node.update({**CALLED, "__loader__": loader, "__id__": 1, **more})
        if loader in ("ConstructorFromReduceNode", "ObjectNode"):
            node["content"] = {**contents["list"], "__id__": 2}
        contents["C"] = node

    return rewritten(data, change)


for _loader in "ConstructorFromReduceNode ListNode SetNode NdArrayNode ObjectNode".split():
    attack("names 'sklearn.cluster._kmeans._kmeans_single_lloyd'", name=f"called_by_{_loader}")(
        lambda loader=_loader: called_by(loader)  # type: ignore[misc]
    )


@attack("ListNode where a DictNode|'FunctionNode' where a TypeNode")
def called_with_a_key() -> bytes:
    def change(schema: Any) -> None:
        key = node_of(schema, "held")["key_types"]["content"][0]
        key.update({**CALLED, "__loader__": "FunctionNode", "__id__": 3})

    return rewritten(stored(changed(LOGISTIC, held={"key": 1})), change)


@attack("two of its nodes have the same number")
def a_node_under_the_number_of_another() -> bytes:
    """skops takes the first node with a number for all."""

    def change(schema: Any) -> None:
        contents = schema["content"]["content"]
        contents["function"]["__id__"] = 7
        contents["held"]["key_types"]["content"][0]["__id__"] = 7

    return rewritten(stored(changed(LOGISTIC, function=np.mean, held={"key": 1})), change)


@attack("version 1 of skops' format")
def older_loaders() -> bytes:
    return rewritten(stored(LOGISTIC), lambda schema: schema.update(protocol=1))


@attack("CachedNode")
def a_node_that_stands_for_another() -> bytes:
    def change(schema: Any) -> None:
        node_of(schema, "C").update({"__loader__": "CachedNode", "__id__": 9})

    return rewritten(stored(LOGISTIC), change)


@attack(f"{TELLTALE}.*not allow|not allow.*{TELLTALE}", "transform")
def a_module_is_imported() -> bytes:
    def change(schema: Any) -> None:
        node_of(schema, "func").update({"__module__": TELLTALE, "__class__": "function"})

    return rewritten(stored(FunctionTransformer(np.mean)), change)


@attack("_kmeans_single_lloyd, a private function of scikit-learn", "transform")
def a_private_function_is_run() -> bytes:
    from sklearn.cluster._kmeans import _kmeans_single_lloyd

    return stored(FunctionTransformer(_kmeans_single_lloyd, kw_args={"centers_init": X}))


# --- sizes and time


@functools.cache
def large_file() -> bytes:
    return stored(changed(LOGISTIC, coef_=np.zeros(_unpack.FREE // 8 + 1)))


@attack("unpack to more than")
def a_file_that_unpacks_to_much() -> bytes:
    return large_file()


@attack("unpack to more than|Bad CRC|damaged")
def a_file_that_lies_about_its_size() -> bytes:
    data = bytearray(large_file())
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        (largest,) = (one for one in file.infolist() if one.file_size > 2**20)
    lie = struct.pack("<L", 1000)
    wanted = struct.pack("<L", largest.file_size)
    return bytes(data.replace(wanted, lie))


@attack("does not match its header")
def an_array_that_lies_about_its_size() -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)}
    )
    data, result = stored(LOGISTIC), io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(result, "w") as new:
        for name in old.namelist():
            is_array = name.endswith(".npy")
            new.writestr(name, header.getvalue() if is_array else old.read(name))
    return result.getvalue()


def sparse(**attributes: Any) -> bytes:
    return stored(
        changed(MinMaxScaler().fit(X), scale_=scipy.sparse.eye(3).tocsr()),
        lambda one: vars(one.scale_).update(attributes),
    )


attack("a sparse matrix of the format 'lil'", "transform", "a_sparse_matrix_of_lists")(
    lambda: sparse(format="lil", shape=(2**20, 3))
)


@attack("more rows and columns than a file", "transform")
def many_sparse_matrices() -> bytes:
    """Each is within the limit, and all are not."""
    matrices = [scipy.sparse.eye(3).tocsr() for _ in range(20)]

    def change(scaler: Any) -> None:
        for one in scaler.held:
            one.shape = (2**20, 3)

    return stored(changed(MinMaxScaler().fit(X), held=matrices), change)


@attack("more rows and columns than a file", "transform")
def a_sparse_matrix_of_many_rows() -> bytes:
    return sparse(shape=(2**40, 3))


for _index, _pattern in enumerate((r"(a+)+$", r"(?:a|a)*$", r"(\w+\s?)*$", r"(\w*)\1\1\1")):
    attack("not allow.*re.compile", "text transform", f"pattern_{_index}")(
        lambda pattern=_pattern: stored(  # type: ignore[misc]
            changed(CountVectorizer().fit(WORDS), token_pattern=pattern)
        )
    )
