"""The operators of packs in the package onnx: schema, shape inference, reference evaluation.

Imported once onnx is.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper
from onnx.defs import OpSchema

# _onnx imports onnx.reference, which must come before any schema of ours.
from opgraft import _onnx, _packs, _pyop
from opgraft._packs import NativeOperator

_registered: set[tuple[str, int]] = set()


def register_schemas() -> None:
    """Gives onnx the schemas of all operators that it has not got yet."""
    for operator in _packs.operators():
        key = operator.full_name, operator.since_version
        if key in _registered:
            continue
        _registered.add(key)  # whatever becomes of it: not again and again
        if operator.domain == "":
            continue  # onnx's own
        try:
            onnx.defs.register_schema(_schema(operator))
        except Exception as error:  # it may be an import of onnx that we are in
            warnings.warn(
                f"onnx {onnx.__version__} takes no schema of {operator.full_name}: {error}",
                stacklevel=2,
            )


def _schema(operator: NativeOperator) -> OpSchema:
    schema = OpSchema(
        operator.name,
        operator.domain,
        operator.since_version,
        operator.documentation,
        inputs=[_parameter(operator, one) for one in operator.inputs],
        outputs=[_parameter(operator, one) for one in operator.outputs],
        type_constraints=[
            (one.name, [_onnx.type_name(n) for n in one.allowed or _onnx.all_types()], "")
            for one in operator.types
        ],
        attributes=[_attribute(one) for one in operator.attributes],
    )
    if hasattr(schema, "set_type_and_shape_inference_function"):  # from onnx 1.19 on
        schema.set_type_and_shape_inference_function(functools.partial(_infer, operator))
    return schema


def _parameter(operator: NativeOperator, one: _packs.Parameter) -> OpSchema.FormalParameter:
    return OpSchema.FormalParameter(
        one.name,
        operator.types[one.type].name,
        one.description,
        param_option=_onnx.OPTIONS[one.occurrence],
        is_homogeneous=operator.types[one.type].is_tied,
        min_arity=one.minimum,
    )


def _attribute(one: _packs.Attribute) -> OpSchema.Attribute:
    if one.default is None:
        kind = OpSchema.AttrType(one.kind)
        return OpSchema.Attribute(one.name, kind, one.description, required=one.is_required)
    default = one.default
    if one.kind == AttributeProto.TENSOR:
        default = numpy_helper.from_array(default)
    value = helper.make_attribute(one.name, default, attr_type=one.kind)
    return OpSchema.Attribute(one.name, value, one.description)


def _infer(operator: NativeOperator, context: Any) -> None:
    """Types by the declaration, shapes by the C++ rule."""
    inputs: list[Any] = []
    for index in range(context.get_num_inputs()):
        value = context.get_input_type(index) if context.has_input(index) else None
        if value is None or not value.HasField("tensor_type"):
            inputs.append(None)
            continue
        has_shape = value.tensor_type.HasField("shape")
        shape = _onnx.known_shape(value.tensor_type.shape) if has_shape else None
        inputs.append((value.tensor_type.elem_type, shape, _constant(context, index)))
    given = {}
    for attribute in operator.attributes:
        found: AttributeProto | None = context.get_attribute(attribute.name)
        if found is not None:
            given[attribute.name] = _onnx.attribute_value(found)
    inferred = _pyop.infer_native(
        operator.full_name, operator.since_version, inputs, given, context.get_num_outputs()
    )
    for index, (element_type, shape) in enumerate(inferred):
        if element_type != 0:
            _onnx.set_output(context, index, element_type, shape)


def _constant(context: Any, index: int) -> Any:
    """The elements of an input as an array, where onnx knows them; None where not."""
    constant = context.get_input_data(index)
    if constant is not None:
        return numpy_helper.to_array(constant)
    # What came of a shape: onnx has followed it, where it was asked to propagate data.
    propagated = context.get_symbolic_input(index)
    if propagated is None or not all(one.HasField("dim_value") for one in propagated.dim):
        return None
    known = context.get_input_type(index).tensor_type
    elements = [one.dim_value for one in propagated.dim]
    array = np.array(elements, helper.tensor_dtype_to_np_dtype(known.elem_type))
    is_scalar = known.HasField("shape") and not known.shape.dim and len(elements) == 1
    return array.reshape(()) if is_scalar else array


def run(full_name: str, version: int, node: onnx.NodeProto, inputs: Any, given: Any) -> Any:
    """Runs an operator for the reference evaluator, by its kernel."""
    present = {key: value for key, value in given.items() if value is not None}
    results = _pyop.run_native(full_name, version, list(inputs), present, len(node.output))
    return tuple(results)
