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
from sklearn.cluster import Birch, KMeans
from sklearn.compose import TransformedTargetRegressor
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import NMF
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import Bunch
from sklearn_attacks import TELLTALE, WORDS, X, attack, rewritten, stored, y

from opgraft.sklearn import _stored, _unpack
from opgraft.sklearn._walk import walk


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


@attack("stack_method_ is 'tofile'.*no method for new data|holds a ndarray, which is no estimator")
def stack_writes_a_file() -> bytes:
    """`str` makes a path of the input, and the array is written there."""
    stack = fitted(StackingClassifier([("a", LOGISTIC)], LogisticRegression(), cv=2))
    code = np.array([b"print('owned')"])
    stack = changed(stack, estimators_=[code], stack_method_=["tofile"])
    return stored(make_pipeline(FunctionTransformer(str), stack))


@attack("stack_method_ is 'fit'.*no method for new data")
def stack_fits() -> bytes:
    stack = fitted(StackingClassifier([("a", LOGISTIC)], LogisticRegression(), cv=2))
    return stored(changed(stack, stack_method_=["fit"]))


@attack("estimators_ holds a ndarray, which is no estimator")
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


@attack("holds a 'predict' in place of its own")
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


@attack(f"{TELLTALE}.*not allowed|not allowed.*{TELLTALE}", "transform")
def a_module_is_imported() -> bytes:
    def change(schema: Any) -> None:
        node_of(schema, "func").update({"__module__": TELLTALE, "__class__": "function"})

    return rewritten(stored(FunctionTransformer(np.mean)), change)


@attack("_kmeans_single_lloyd, which is not for others", "transform")
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


@attack("does not hold as much as it says")
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
    attack("not allowed.*re.compile", "text transform", f"pattern_{_index}")(
        lambda pattern=_pattern: stored(  # type: ignore[misc]
            changed(CountVectorizer().fit(WORDS), token_pattern=pattern)
        )
    )


# --- what compiled code takes for granted


@attack("CountVectorizer", "text transform")
def words_beyond_the_vocabulary() -> bytes:
    vectorizer = CountVectorizer().fit(WORDS)
    vocabulary = {word: 2**30 + index for index, word in enumerate(vectorizer.vocabulary_)}
    return stored(changed(vectorizer, vocabulary_=vocabulary))


@attack("n_features", "text transform")
def no_features_to_hash_to() -> bytes:
    return stored(changed(HashingVectorizer(), n_features=0))


@attack("OneHotEncoder", "transform")
def categories_beyond_the_columns() -> bytes:
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(np.round(X * 9))
    return stored(changed(encoder, _n_features_outs=[-(2**30), 2**30 + 2]))


@attack("OneHotEncoder", "transform")
def categories_in_no_order() -> bytes:
    encoder = OneHotEncoder(sparse_output=False).fit(X)
    return stored(changed(encoder, categories_=[one[::-1] for one in encoder.categories_]))


@attack("GradientBoostingClassifier")
def boosting_from_fewer_columns() -> bytes:
    boosting = fitted(GradientBoostingClassifier(n_estimators=2))
    return stored(boosting, lambda one: setattr(one, "init_", DummyClassifier().fit(X, y > 0)))


@attack("GradientBoostingRegressor.init_ is a Pipeline")
def boosting_from_fewer_rows() -> bytes:
    """It gives one number for all rows, but for zeros."""
    steps = [FunctionTransformer(one) for one in (np.log, np.sin, np.sign)]
    steps += [FunctionTransformer(np.mean, kw_args={"axis": 1}), FunctionTransformer(set)]
    first = make_pipeline(*steps, DummyRegressor().fit(X, y))
    boosting = fitted(GradientBoostingRegressor(n_estimators=2))
    return stored(changed(boosting, init_=first))


@attack("GradientBoostingRegressor")
def boosting_from_no_columns() -> bytes:
    boosting = fitted(GradientBoostingRegressor(n_estimators=2))
    first = LinearRegression().fit(X, y)
    first = changed(first, coef_=np.zeros((0, 2)), intercept_=np.zeros(0))
    return stored(changed(boosting, init_=first))


@attack("GradientBoostingClassifier")
def boosting_with_the_loss_of_two_classes() -> bytes:
    boosting = fitted(GradientBoostingClassifier(n_estimators=2))
    other = GradientBoostingClassifier(n_estimators=2).fit(X, y > 0)
    return stored(changed(boosting, _loss=other._loss))


@attack("GradientBoostingClassifier")
def boosting_of_trees_of_many_outputs() -> bytes:
    boosting = fitted(GradientBoostingClassifier(n_estimators=2))
    tree = DecisionTreeRegressor().fit(X, np.stack([y] * 50, 1))
    return stored(changed(boosting, estimators_=np.array([[tree] * 3], dtype=object)))


@attack("is no|tree_|DecisionTreeRegressor")
def boosting_of_what_is_no_tree() -> bytes:
    """Compiled code takes it for one without a look at its type."""
    boosting = fitted(GradientBoostingClassifier(n_estimators=2))
    return stored(
        boosting,
        lambda one: setattr(one.estimators_[0, 0], "tree_", Bunch(n_features=2, n_outputs=1)),
    )


def neighbours(kind: Any = KNeighborsClassifier, **attributes: Any) -> bytes:
    metric = "manhattan" if kind is KNeighborsClassifier else "euclidean"
    return stored(changed(fitted(kind(algorithm="brute", metric=metric)), **attributes))


attack("KNeighborsClassifier", name="labels_beyond_the_classes")(
    lambda: neighbours(_y=np.full(30, 2**40))
)
attack("KNeighborsClassifier", name="neighbours_of_fewer_columns")(
    lambda: neighbours(_fit_X=X[:, :1].copy(), n_features_in_=2)
)
attack("KNeighborsClassifier", name="neighbours_that_are_not_there")(
    lambda: neighbours(n_samples_fit_=10**6, n_neighbors=10**5)
)
attack("n_neighbors", name="fewer_neighbours_than_none")(lambda: neighbours(n_neighbors=-5))
attack("NearestNeighbors", "kneighbors.0", "norms_that_are_not_there")(
    lambda: neighbours(NearestNeighbors, effective_metric_params_={"Y_norm_squared": np.zeros(1)})
)
attack("NearestNeighbors", "kneighbors.0", "an_inverse_of_one_number")(
    lambda: neighbours(
        NearestNeighbors, metric="mahalanobis", effective_metric_="mahalanobis",
        effective_metric_params_={"VI": np.eye(1)},
    )
)  # fmt: skip


@attack("SVC")
def sparse_support_vectors() -> bytes:
    machine = SVC().fit(scipy.sparse.csr_matrix(X), y)
    dual = scipy.sparse.csr_matrix(machine._dual_coef_.shape)
    return stored(changed(machine, _dual_coef_=dual))


def kernel_machine(kernel: Any, **attributes: Any) -> bytes:
    machine = SVC(kernel=rbf_kernel).fit(X, y)
    return stored(changed(machine, kernel=kernel, **attributes))


attack("SVC", "decision_function", "a_kernel_of_fewer_columns")(
    lambda: kernel_machine(
        np.add, _BaseLibSVM__Xfit=np.zeros((1, 1)), shape_fit_=(2**31 - 1, 2),
        support_=np.full(len(SVC(kernel=rbf_kernel).fit(X, y).support_), 2**31 - 2, np.int32),
    )
)  # fmt: skip
attack("SVC.kernel is numpy", "decision_function", "a_kernel_that_is_no_kernel")(
    lambda: kernel_machine(np.add)
)
attack("SVC.kernel is", "decision_function", "a_partial_of_the_models_own_rows")(
    lambda: kernel_machine(functools.partial(rbf_kernel, X[:1]))
)
attack("SVC", "decision_function", "rows_of_a_kernel_that_are_not_there")(
    lambda: kernel_machine(rbf_kernel, _BaseLibSVM__Xfit=X[:1].astype(float))
)


def widen(holder: Any) -> None:
    """A tree that agrees with itself, for rows that are wider than those that come."""
    holder.n_features, holder.nodes = 2**30, holder.nodes.copy()
    holder.nodes["feature"][0] = 2**29


@attack("SVC")
def probabilities_that_are_not_there() -> bytes:
    return stored(changed(SVC().fit(scipy.sparse.csr_matrix(X), y), _effective_probability=True))


@attack("EllipticEnvelope")
def an_inverse_of_one_row() -> bytes:
    envelope = EllipticEnvelope().fit(X)
    return stored(changed(envelope, precision_=envelope.precision_[:1].copy()))


@attack("KNeighborsTransformer", "transform")
def a_graph_of_more_neighbours_than_columns() -> bytes:
    graph = KNeighborsTransformer(algorithm="kd_tree").fit(X)
    other = KNeighborsTransformer(algorithm="kd_tree").fit(np.repeat(X, 99, axis=0))
    return stored(changed(graph, _tree=other._tree))


@attack("it is a Tree, which is no estimator")
def a_tree_as_the_root() -> bytes:
    return stored(DecisionTreeRegressor().fit(X, y).tree_, widen)


@attack("regressor_ holds a Tree, which does not belong")
def a_tree_as_an_estimator() -> bytes:
    target = fitted(TransformedTargetRegressor(LinearRegression()))
    tree = DecisionTreeRegressor().fit(X, y).tree_
    return stored(changed(target, regressor_=tree), lambda one: widen(one.regressor_))


@attack("a MT19937 stands at -2147483648")
def a_generator_outside_of_its_numbers() -> bytes:
    def change(schema: Any) -> None:
        state = node_of(schema, "random_state")["content"]["content"]["state"]["content"]
        state["pos"]["content"] = str(-(2**31))

    drawing = fitted(DummyClassifier(strategy="stratified"))
    return rewritten(stored(changed(drawing, random_state=np.random.RandomState(0))), change)


@attack("says that it is being fitted")
def boosting_that_is_being_fitted() -> bytes:
    """Then it takes its input for small whole numbers, as many in a row as it likes."""
    boosting = HistGradientBoostingRegressor(max_iter=2).fit(np.repeat(X, 200, 1), y)
    boosting = changed(boosting, _in_fit=True)
    return stored(make_pipeline(FunctionTransformer(np.uint8), boosting))


@attack("HistGradientBoostingRegressor")
def boosting_after_a_step_that_drops_columns() -> bytes:
    boosting = fitted(HistGradientBoostingRegressor(max_iter=2))
    first = FunctionTransformer(np.mean, kw_args={"axis": 1, "keepdims": True}).fit(X)
    return stored(changed(boosting, _preprocessor=first))


@attack("NMF", "transform")
def parts_that_are_not_there() -> bytes:
    return stored(changed(NMF(2, max_iter=500).fit(X), _n_components=50))


@attack("Birch")
def norms_of_fewer_clusters() -> bytes:
    return stored(
        Birch(n_clusters=None, threshold=0.01).fit(X),
        lambda one: one.state.update(_subcluster_norms=np.zeros(1)),
    )


@attack("damaged")
def a_forest_with_a_damaged_node() -> bytes:
    def change(forest: Any) -> None:
        holder = next(one.value for one in walk(forest) if isinstance(one.value, _stored.Stored))
        holder.nodes = holder.nodes.copy()
        holder.nodes["left_child"][0] = 2**40

    return stored(fitted(RandomForestRegressor(2)), change)
