"""All private names of skl2onnx that Opgraft uses. Each access raises a clear error if it moved."""

from __future__ import annotations

import importlib
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import skl2onnx

from opgraft._base._errors import UnavailableError
from opgraft._pyop import RUNTIME_DOMAINS

# A conversion temporarily changes skl2onnx's global tables, so only one may run at a time.
_lock = threading.RLock()


def find(module: str, name: str) -> Any:
    """Returns `name` from a module of skl2onnx. Raises an error that says what is missing."""
    try:
        return getattr(importlib.import_module(f"skl2onnx.{module}"), name)
    except (ImportError, AttributeError):
        raise UnavailableError(
            f"skl2onnx {skl2onnx.__version__} has no skl2onnx.{module}.{name}, which "
            "opgraft.sklearn needs. Fix: use skl2onnx 1.20, the tested version, or a newer Opgraft"
        ) from None


@contextmanager
def any_version_of_other_domains() -> Iterator[dict[str, int]]:
    """Lets converters add nodes of domains that onnx does not know, in any version.

    skl2onnx expects version 1 for those domains. Yields the highest version of the added nodes, by
    domain. Also turns lists of bools, which protobuf no longer accepts as attributes, into lists of
    ints.
    """
    container = find("common._container", "ModelComponentContainer")
    versions: dict[str, int] = {}
    with _lock:
        add_node: Callable[..., None] = container.add_node

        def add(
            self: Any,
            op_type: str,
            inputs: Any,
            outputs: Any,
            op_domain: str = "",
            op_version: int | None = None,
            name: str | None = None,
            **attrs: Any,
        ) -> None:
            if op_domain is not None and op_domain not in RUNTIME_DOMAINS:
                is_targeted = op_domain in (getattr(self, "target_opset_all", None) or {})
                if op_version is not None and not is_targeted:
                    versions[op_domain] = max(versions.get(op_domain, 1), op_version)
                    op_version = 1
            attrs = {key: _without_bools(value) for key, value in attrs.items()}
            add_node(self, op_type, inputs, outputs, op_domain, op_version, name, **attrs)

        container.add_node = add
        try:
            yield versions
        finally:
            container.add_node = add_node


def _without_bools(value: Any) -> Any:
    import numpy as np

    if isinstance(value, np.ndarray) and value.dtype == np.bool_:
        return value.astype(np.int64)
    if isinstance(value, list) and any(isinstance(one, (bool, np.bool_)) for one in value):
        return [int(one) if isinstance(one, (bool, np.bool_)) else one for one in value]
    return value


_TREES = "decision_tree random_forest gradient_boosting isolation_forest".split()


@contextmanager
def missing_values_in_trees() -> Iterator[None]:
    """Makes converted trees send missing values to the same child as scikit-learn does.

    skl2onnx supports this for HistGradientBoosting only; all its other trees send NaN to the right.
    A tree that separates missing values from all others has an infinite threshold. skl2onnx's
    search for the nearest float32 would never end for it.
    """
    with _lock:
        undo: list[tuple[Any, str, Any]] = []
        try:
            for name in _TREES:
                module: Any = importlib.import_module(f"skl2onnx.operator_converters.{name}")
                before = find(f"operator_converters.{name}", "add_tree_to_attribute_pairs")
                undo.append((module, "add_tree_to_attribute_pairs", before))
                module.add_tree_to_attribute_pairs = _with_tracks(before)
            module = importlib.import_module("skl2onnx.common.tree_ensemble")
            nearest = find("common.tree_ensemble", "sklearn_threshold")
            undo.append((module, "sklearn_threshold", nearest))
            module.sklearn_threshold = lambda value, *more: (
                nearest(value, *more) if math.isfinite(value) else value
            )
            module = importlib.import_module("skl2onnx.operator_converters.decision_tree")
            populate = find("operator_converters.decision_tree", "populate_tree_attributes")
            undo.append((module, "populate_tree_attributes", populate))

            def populate_with_tracks(model: Any, *arguments: Any, **named: Any) -> Any:
                attributes = populate(model, *arguments, **named)
                _set_tracks(attributes, model.tree_)
                return attributes

            module.populate_tree_attributes = populate_with_tracks
            yield
        finally:
            for module, name, function in undo:
                setattr(module, name, function)


def _with_tracks(add_tree: Callable[..., None]) -> Callable[..., None]:
    def add(attributes: Any, is_classifier: bool, tree: Any, *more: Any, **named: Any) -> None:
        add_tree(attributes, is_classifier, tree, *more, **named)
        _set_tracks(attributes, tree)

    return add


def _set_tracks(attributes: Any, tree: Any) -> None:
    """Sets where missing values go in the tree that was added last."""
    is_left = (tree.missing_go_to_left != 0) & (tree.children_left >= 0)
    attributes["nodes_missing_value_tracks_true"][-tree.node_count :] = is_left.astype(int).tolist()


class Unseen(UnavailableError):
    """Raised when the results of a step cannot be found out by running it on sample data."""

    def __init__(self, step: Any, error: Exception) -> None:
        super().__init__(
            f"the types of the results of {type(step).__name__} are unknown, and it raised an "
            f"error for sample data ({type(error).__name__}: {error}). Fix: pass some rows, "
            "to_onnx(model, X)"
        )


# skl2onnx's tables

_OPTIONS = {
    "zipmap": [True, False, "columns"],
    "output_class_labels": [False, True],
    "nocl": [True, False],
    "raw_scores": [True, False],
}


def _aliases() -> dict[type, str]:
    return find("_supported_operators", "sklearn_operator_name_map")  # type: ignore[no-any-return]


def _parsers() -> dict[type, Any]:
    return find("_parse", "sklearn_parsers_map")  # type: ignore[no-any-return]


_ours: set[type] = set()  # types that are registered only during a conversion


def is_known(of_type: type) -> bool:
    """Whether skl2onnx itself converts this type."""
    return of_type not in _ours and (of_type in _aliases() or of_type in _parsers())


def alias_of(of_type: type) -> str:
    return _aliases()[of_type]


def options_of(of_type: type) -> Any:
    alias = _aliases().get(of_type)
    pool = find("common._registration", "_converter_pool")
    if alias is None or alias not in pool:
        return {}
    return pool[alias].get_allowed_options() or {}


@contextmanager
def registered(types: set[type], convert: Any, shapes: Any) -> Iterator[None]:
    """Temporarily registers the types that skl2onnx does not know."""
    aliases, parsers = _aliases(), _parsers()
    converters = find("common._registration", "_converter_pool")
    calculators = find("common._registration", "_shape_calculator_pool")
    registered_converter = find("common._registration", "RegisteredConverter")
    with _lock:
        unknown = [one for one in types if one not in aliases]
        added = []
        for one in unknown:
            alias = f"Opgraft{one.__module__}.{one.__name__}".replace(".", "_")
            aliases[one] = alias
            converters[alias] = registered_converter(convert, _OPTIONS)
            calculators[alias] = shapes
            added.append((one, alias))
            if one not in parsers:
                _ours.add(one)
        try:
            yield
        finally:
            for one, alias in added:
                aliases.pop(one, None)
                converters.pop(alias, None)
                calculators.pop(alias, None)
                _ours.discard(one)


class _Kind(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return bool(cls.is_one(instance))  # type: ignore[attr-defined]


@contextmanager
def unmerged(is_python: Callable[[Any], bool]) -> Iterator[None]:
    """Keeps the columns that a column transformer passes to a Python node separate, because their
    types may differ."""
    module: Any = importlib.import_module("skl2onnx._parse")
    before = find("_parse", "do_not_merge_columns")
    kind = _Kind("kind", (), {"is_one": staticmethod(is_python)})
    with _lock:
        module.do_not_merge_columns = (*before, kind)
        try:
            yield
        finally:
            module.do_not_merge_columns = before


# Parts of a conversion


def parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any) -> Any:
    return find("_parse", "_parse_sklearn")(scope, model, inputs, custom_parsers=custom_parsers)


def parse_natively(scope: Any, model: Any, inputs: Any, custom_parsers: Any) -> Any:
    """Parses as skl2onnx does without a custom parser for this type."""
    parsers = _parsers()
    parser = parsers.get(type(model)) or find("_parse", "_parse_sklearn_simple_model")
    return parser(scope, model, inputs, custom_parsers=custom_parsers)


def hand_down_options(scope: Any, model: Any, step: Any) -> None:
    """Applies a pipeline's options to its last step if that is a classifier."""
    from sklearn.base import is_classifier

    options = scope.options or {}
    if is_classifier(step) and id(step) not in options and type(step) not in options:
        scope.add_options(id(step), scope.get_options(model, {"zipmap": True}))


def prefer(container: Any, step: Any, option: str, value: Any) -> None:
    """Sets an option of a step's converter, if it has that option and nobody has set it."""
    if option in options_of(type(step)) and option not in container.get_options(step, {}):
        options = dict(container.options or {})
        options[id(step)] = {**(options.get(id(step)) or {}), option: value}
        container.options = options


def convert_natively(scope: Any, operator: Any, container: Any) -> None:
    if hasattr(operator.raw_operator, "onnx_converter"):
        operator.raw_operator.onnx_converter()(scope, operator, container)
    else:
        find("common._registration", "get_converter")(operator.type)(scope, operator, container)


def shapes_natively(operator: Any) -> None:
    if hasattr(operator.raw_operator, "onnx_shape_calculator"):
        operator.raw_operator.onnx_shape_calculator()(operator)
    else:
        operator.infer_types()


def declare_sequence(scope: Any, of_type: Any) -> Any:
    sequence = find("common.data_types", "SequenceType")
    return scope.declare_local_variable("probabilities", sequence(of_type))


def zip_probabilities(scope: Any, model: Any, inputs: Any, outputs: Any) -> Any:
    """Returns label and probabilities in the form that the option 'zipmap' asks for."""
    is_simple = len(outputs) == 2 and len(outputs[0].type.shape) == 1
    if "zipmap" not in options_of(type(model)) or not is_simple or not hasattr(model, "classes_"):
        return outputs
    zipmap = scope.get_options(model, {"zipmap": True}, fail=False).get("zipmap", True)
    if zipmap is False:
        return outputs
    return find("_parse", "_apply_zipmap")(zipmap, scope, model, inputs[0].type, outputs)


def add_nodes_of(container: Any, op_type: str, inputs: list[str], outputs: list[str]) -> None:
    container.add_node(op_type, inputs, outputs, name=f"{op_type}_{outputs[0]}", op_version=11)


def numpy_type(of_type: Any) -> Any:
    """Returns NumPy's type for a type of skl2onnx; object for strings."""
    import numpy as np
    import onnx

    number = of_type.to_onnx_type().tensor_type.elem_type
    if number == onnx.TensorProto.STRING:
        return object
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
