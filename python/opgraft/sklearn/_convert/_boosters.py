"""Converts LightGBM's and XGBoost's estimators with onnxmltools, if that is installed."""

from __future__ import annotations

import importlib
import warnings

import skl2onnx

from opgraft.sklearn import _private

#: For each package: the module of the converter, its name, and the classes that it converts.
_CONVERTERS = {
    "lightgbm": ("LightGbm", "convert_lightgbm", ("LGBMClassifier", "LGBMRegressor")),
    "xgboost": (
        "XGBoost",
        "convert_xgboost",
        ("XGBClassifier", "XGBRegressor", "XGBRFClassifier", "XGBRFRegressor"),
    ),
}
_OPTIONS = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
INSTALL = "pip install onnxmltools"


def _entry(of_type: type) -> tuple[str, str, str] | None:
    package = of_type.__module__.partition(".")[0]
    module, name, classes = _CONVERTERS.get(package, ("", "", ()))
    return (package, module, name) if of_type.__name__ in classes else None


def remedy(of_type: type) -> str:
    """Returns how to make a type native, to be added to the reason why it is not."""
    if _entry(of_type) is None:
        return ""
    return f"; onnxmltools has one. Fix: {INSTALL}"


def register(types: set[type]) -> None:
    """Registers the types that onnxmltools converts with skl2onnx, as its users do with
    `update_registered_converter`. A type that already has a converter keeps it."""
    for of_type in types:
        entry = _entry(of_type)
        if entry is None or _private.is_known(of_type):
            continue
        package, module, name = entry
        path = f"onnxmltools.convert.{package}.operator_converters.{module}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                convert = getattr(importlib.import_module(path), name)
        except (ImportError, AttributeError):
            continue
        is_classifier = of_type.__name__.endswith("Classifier")
        kind = "classifier" if is_classifier else "regressor"
        shapes = _private.find("common.shape_calculator", f"calculate_linear_{kind}_output_shapes")
        skl2onnx.update_registered_converter(
            of_type,
            f"{package}{of_type.__name__}",
            shapes,
            convert,
            options=_OPTIONS if is_classifier else None,
        )
