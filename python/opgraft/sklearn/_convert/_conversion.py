"""One conversion by skl2onnx, in which some steps become Python nodes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any

import numpy as np
import skl2onnx
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, TensorType
from sklearn.base import ClassifierMixin, ClusterMixin, RegressorMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.neighbors import RadiusNeighborsClassifier, RadiusNeighborsRegressor
from sklearn.pipeline import FeatureUnion, Pipeline

from opgraft._base._errors import Error
from opgraft.sklearn import _private
from opgraft.sklearn._convert import (
    _boosters,
    _chains,
    _doubles,
    _ensembles,
    _glue,
    _labels,
    _maps,
    _methods,
    _nodes,
    _standard,
)
from opgraft.sklearn._convert._methods import Output
from opgraft.sklearn._convert._recording import Call, steps_of

INNER = ("transform",)

#: Conversions that are wrong in ways that not every X shows.
_LONELY = "skl2onnx's conversion fails if a row has no neighbour"
KNOWN_WRONG: dict[type, str] = {
    RadiusNeighborsClassifier: _LONELY,
    RadiusNeighborsRegressor: _LONELY,
    TunedThresholdClassifierCV: "skl2onnx ignores its threshold",
}


class StepError(Exception):
    """Raised if the conversion of a step fails; `__cause__` is the original error."""

    def __init__(self, step: Any, error: Exception) -> None:
        super().__init__(f"{type(step).__name__}: {type(error).__name__}: {error}")
        self.step = step


class Conversion:
    """Converts `model`. The steps whose ids are in `in_python` (id: reason), and those that
    skl2onnx does not know, become Python nodes. `methods` are those of the last step to convert."""

    def __init__(
        self,
        model: Any,
        in_python: dict[int, str],
        calls: dict[int, Call],
        methods: Sequence[str] | None = None,
        apart: Set[int] = frozenset(),
    ) -> None:
        self.model = model
        self.in_python = in_python
        self.apart = apart  #: ids of ensembles whose estimators are converted as separate steps
        self.calls = calls
        self.methods = tuple(methods) if methods is not None else None  #: of the current step
        self.outputs: dict[int, list[Output]] = {}  #: by operator
        self.samples: dict[int, Any] = {}  #: recorded or sample input of a step in Python
        self.variants: dict[int, tuple[Any, Any]] = {}  #: a converted variant, and its step
        self._steps = {id(step): step for step in steps_of(model)}
        self._has_python = False
        self._exact: set[str] = set()  # nodes of trees that do not round before they compare

    def run(self, initial_types: Sequence[Any], options: Any = None, **arguments: Any) -> Any:
        types = {type(step) for step in self._steps.values()}
        _boosters.register(types)
        self._has_python = any(map(self._is_python, self._steps.values()))
        with (
            _private.registered(types, self._convert, self._shapes),
            _private.unmerged(self._is_python),
            _private.any_version_of_other_domains(),
            _private.missing_values_in_trees(),
            warnings.catch_warnings(),
        ):
            warnings.filterwarnings("ignore", message="Option zipmap is ignored")
            converted = skl2onnx.convert_sklearn(
                self.model,
                initial_types=list(initial_types),
                custom_conversion_functions={
                    **dict.fromkeys(types, self._convert),
                    **_chains.CONVERTERS,
                    **_ensembles.CONVERTERS,
                },
                custom_shape_calculators={
                    **dict.fromkeys(types, self._shapes),
                    **_chains.SHAPES,
                    **_ensembles.SHAPES,
                },
                custom_parsers=dict.fromkeys(types, self._parse),
                options=copy.deepcopy(options),  # parsers add to it
                **arguments,
            )
        if any(isinstance(of_type, DoubleTensorType) for _, of_type in initial_types):
            _maps.narrow(converted)
            converted = _doubles.widened(converted)
            _doubles.round_for_trees(converted, self._exact)
        return converted

    # Which steps

    def _is_python(self, step: Any) -> bool:
        return self.why_python(step) is not None

    def why_python(self, step: Any) -> str | None:
        """Returns the reason why a step becomes a Python node; None if it stays native."""
        if id(step) in self.in_python:
            return self.in_python[id(step)]
        if id(step) not in self._steps:
            return None
        if type(step) in KNOWN_WRONG:
            return KNOWN_WRONG[type(step)]
        if _glue.parser_for(step) is not None:
            return None
        if not _private.is_known(type(step)) and not isinstance(step, Pipeline):
            missing = _boosters.remedy(type(step))
            return f"skl2onnx {skl2onnx.__version__} has no converter for it{missing}"
        return None

    @contextmanager
    def asked(self, methods: tuple[str, ...] | None) -> Iterator[None]:
        before, self.methods = self.methods, methods
        try:
            yield
        finally:
            self.methods = before

    # Parsing: which outputs a step has

    def _parse(self, scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
        try:
            return self.parse(scope, model, inputs, custom_parsers)
        except StepError:
            raise
        except Exception as error:
            raise StepError(model, error) from error

    def parse(self, scope: Any, model: Any, inputs: Any, custom_parsers: Any) -> Any:
        if self._is_python(model):
            return self._parse_python(scope, model, list(inputs))
        if id(model) in self.apart:
            return _ensembles.parse(self, scope, model, inputs, custom_parsers)
        glue = _glue.parser_for(model)
        if glue is not None:
            return glue(self, scope, model, inputs, custom_parsers)
        if isinstance(model, Pipeline):
            return self._parse_pipeline(scope, model, inputs, custom_parsers)
        if isinstance(model, (ColumnTransformer, FeatureUnion)):
            with self.asked(INNER):
                given = _glue.without_words(model) if isinstance(model, FeatureUnion) else model
                return _private.parse_natively(scope, given, inputs, custom_parsers)
        one = _chains.as_one(scope, inputs, joins_texts=isinstance(model, SimpleImputer))
        return self.parse_natively(scope, model, one, custom_parsers)

    def parse_natively(self, scope: Any, model: Any, inputs: Any, custom_parsers: Any) -> Any:
        if self.methods == INNER and isinstance(model, (ClassifierMixin, RegressorMixin)):
            raise NotImplementedError("skl2onnx converts its predict, not its transform")
        if self.methods is not None and not set(self.methods) <= _native_methods(model):
            raise NotImplementedError(f"skl2onnx does not convert {', '.join(self.methods)}")
        outputs = _private.parse_natively(scope, model, inputs, custom_parsers)
        if self.methods == INNER and isinstance(model, ClusterMixin) and len(outputs) == 2:
            return [outputs[1]]  # the next step gets the distances
        return outputs

    def _parse_pipeline(self, scope: Any, model: Any, inputs: Any, custom_parsers: Any) -> Any:
        steps = [step for _, step in model.steps if step is not None and step != "passthrough"]
        for step in steps[:-1]:
            with self.asked(INNER):
                inputs = _private.parse(scope, step, inputs, custom_parsers)
        _private.hand_down_options(scope, model, steps[-1])
        is_last = bool(model.steps[-1][1] is steps[-1])
        with self.asked(self.methods if is_last else INNER):
            return _private.parse(scope, steps[-1], inputs, custom_parsers)

    def _parse_python(self, scope: Any, model: Any, inputs: list[Any]) -> Any:
        for one in inputs:
            if not isinstance(one.type, TensorType):
                raise Error(
                    f"{type(model).__name__} has the input '{one.raw_name}' of {one.type}, but a "
                    "Python node takes only tensors"
                )
        methods = self.methods or tuple(_methods.default_methods(model))
        outputs = self._describe(model, methods, inputs, is_inner=self.methods == INNER and
                                 model is not _last_step(self.model))  # fmt: skip
        operator = scope.declare_local_operator(_private.alias_of(type(model)), model)
        operator.inputs = inputs
        self.outputs[id(operator)] = outputs
        is_sequence = sum(one.method.startswith("predict_proba.") for one in outputs) > 0
        for one in outputs:
            if not one.method.startswith("predict_proba."):
                operator.outputs.append(scope.declare_local_variable(one.name, one.type))
        if is_sequence:
            operator.outputs.append(_private.declare_sequence(scope, outputs[-1].type))
            return operator.outputs
        if self.methods is None and "predict_proba" in methods:
            return _private.zip_probabilities(scope, model, inputs, operator.outputs)
        return operator.outputs

    # Types and nodes

    def _shapes(self, operator: Any) -> None:
        step = operator.raw_operator
        try:
            if self.why_python(step) is None:
                is_ours = _standard.takes(step, operator.inputs)
                (_standard.shapes if is_ours else _private.shapes_natively)(operator)
                return
            for variable, one in zip(operator.outputs, self._outputs(operator), strict=False):
                if not one.method.startswith("predict_proba."):
                    variable.type = one.type
        except Exception as error:
            raise self._blame(step, error) from error

    def _convert(self, scope: Any, operator: Any, container: Any) -> None:
        step = operator.raw_operator
        why = self.why_python(step)
        try:
            if why is None:
                if _standard.takes(step, operator.inputs):
                    _standard.convert(scope, operator, container)
                    return
                if self._has_python and all(isinstance(one.type, FloatTensorType)
                                            for one in operator.inputs):  # fmt: skip
                    # Sub and Div are twice as fast as Scaler.
                    _private.prefer(container, step, "div", "div")
                before = len(container.nodes)
                _private.convert_natively(scope, operator, container)
                _labels.decide_by_scores(scope, operator, container, before)
                if _doubles.compares_in_float64(step):
                    self._exact |= {node.name for node in container.nodes[before:]}
                return
            outputs = self._outputs(operator)
            _nodes.add(scope, operator, container, outputs, self.samples[id(step)], why)
        except StepError:
            raise
        except Exception as error:
            raise self._blame(step, error) from error

    def _blame(self, step: Any, error: Exception) -> StepError:
        return StepError(self.variants.get(id(step), (None, step))[1], error)

    def _outputs(self, operator: Any) -> list[Output]:
        """Returns the outputs of an operator. If another converter, such as that of a stack,
        declared the operator, it already has outputs: a label and probabilities, or one result."""
        if id(operator) not in self.outputs:
            step = operator.raw_operator
            methods = _methods.default_methods(step)[: len(operator.outputs)]
            if scope_asks_scores(operator) and len(methods) == 2:
                methods[1] = "decision_function"
            self.outputs[id(operator)] = self._describe(
                step, methods, list(operator.inputs), is_inner=not isinstance(step, ClassifierMixin)
            )
        return self.outputs[id(operator)]

    def _describe(
        self, step: Any, methods: Sequence[str], inputs: list[Any], *, is_inner: bool
    ) -> list[Output]:
        real = _methods.floats(inputs)
        if id(step) in self.calls:
            X = self.samples[id(step)] = self.calls[id(step)].X
            return _methods.describe(step, methods, X, real, is_inner=is_inner)
        made_up = sample(step, inputs)
        try:
            described = _methods.describe(step, methods, made_up, real, is_inner=is_inner)
        except Exception as error:
            # Some steps take only the type of real numbers that they were fitted on.
            try:
                made_up = made_up.astype(np.float64 if real == "float32" else np.float32)
                described = _methods.describe(step, methods, made_up, real, is_inner=is_inner)
            except Exception:
                raise _private.Unseen(step, error) from error
        self.samples[id(step)] = made_up
        return described


def scope_asks_scores(operator: Any) -> bool:
    options = operator.scope_inst.options or {}
    return bool((options.get(id(operator.raw_operator)) or {}).get("raw_scores"))


def _last_step(model: Any) -> Any:
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return model


def _native_methods(model: Any) -> set[str]:
    """Returns the methods that skl2onnx can convert for it."""
    methods = set(_methods.default_methods(model))
    if isinstance(model, ClassifierMixin) and _methods.has(model, "decision_function"):
        methods.add("decision_function")
    if isinstance(model, ClusterMixin):
        methods.add("transform")
    return methods | ({"score_samples"} & set(_private.options_of(type(model))))


def sample(step: Any, inputs: list[Any]) -> Any:
    """Returns two rows of sample data for a step whose real input is unknown."""
    known = getattr(step, "n_features_in_", None)
    columns = []
    for one in inputs:
        shape = one.type.shape
        width = shape[1] if len(shape) > 1 and isinstance(shape[1], int) and shape[1] else None
        if width is None:
            width = known if len(inputs) == 1 and known else 1
        dtype = _private.numpy_type(one.type)
        columns.append(np.full((2, width), "a" if dtype is object else 1, dtype=dtype))
    if _methods.takes_list(step):
        return columns[0][:, 0]
    if len({one.dtype for one in columns}) > 1:
        columns = [one.astype(object) for one in columns]
    names = getattr(step, "feature_names_in_", None)
    X = np.concatenate(columns, axis=1)
    if names is not None and len(names) == X.shape[1]:
        import pandas

        return pandas.DataFrame(
            {name: pandas.Series(list(X[:, i])) for i, name in enumerate(names)}
        )
    return X
