"""Our operators in the package onnx: schema, shape inference, reference evaluation.

Imported once onnx is.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TypeProto, helper, numpy_helper
from onnx.defs import OpSchema

# Before any schema of ours is there: it cannot be imported while two domains have an operator of
# the same name.
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from opgraft import _declare, _packs, _pyop, _signature
from opgraft._declare import Operator
from opgraft._packs import NativeOperator

_registered: dict[str, Operator] = {}
_registered_native: set[tuple[str, int]] = set()

_OPTIONS = {
    _signature.REQUIRED: OpSchema.FormalParameterOption.Single,
    _signature.OPTIONAL: OpSchema.FormalParameterOption.Optional,
    _signature.VARIADIC: OpSchema.FormalParameterOption.Variadic,
}


def register_declared() -> None:
    """Gives onnx the schemas of all operators that it has not got yet, or got otherwise."""
    for operator in _declare.operators():
        known = _registered.get(operator.full_name)
        if known is operator:
            continue
        if known is None and onnx.defs.has(operator.name, operator.domain):
            continue  # onnx's own, or someone else's: theirs to keep
        _registered[operator.full_name] = operator  # whatever becomes of it: not again and again
        try:
            schema = _schema(operator)
            if known is not None and onnx.defs.has(operator.name, operator.domain):
                onnx.defs.deregister_schema(operator.name, 1, operator.domain)
            onnx.defs.register_schema(schema)
        except Exception as error:  # it may be an import of onnx that we are in
            _warn(operator.full_name, error)


def register_native() -> None:
    """The same of all operators of packs."""
    for operator in _packs.operators():
        key = operator.full_name, operator.since_version
        if key in _registered_native:
            continue
        _registered_native.add(key)  # whatever becomes of it: not again and again
        if operator.domain == "":
            continue  # onnx's own
        try:
            onnx.defs.register_schema(_native_schema(operator))
        except Exception as error:  # it may be an import of onnx that we are in
            _warn(operator.full_name, error)


def _warn(full_name: str, error: Exception) -> None:
    warnings.warn(f"onnx {onnx.__version__} takes no schema of {full_name}: {error}", stacklevel=3)


def _schema(operator: Operator) -> OpSchema:
    signature = operator.signature
    schema = OpSchema(
        operator.name,
        operator.domain,
        1,
        operator.documentation,
        inputs=[_parameter(operator, one) for one in signature.inputs],
        outputs=[_output(operator, one) for one in signature.outputs],
        type_constraints=[
            (f"T{index}", _type_names(allowed), "")
            for index, (allowed, _) in enumerate(signature.types)
            if any(one.type == index for one in (*signature.inputs, *signature.outputs))
        ],
        attributes=[_attribute(one) for one in signature.attributes],
    )
    return _inferring(schema, functools.partial(_infer, operator))


def _native_schema(operator: NativeOperator) -> OpSchema:
    schema = OpSchema(
        operator.name,
        operator.domain,
        operator.since_version,
        operator.documentation,
        inputs=[_native_parameter(operator, one) for one in operator.inputs],
        outputs=[_native_parameter(operator, one) for one in operator.outputs],
        type_constraints=[(one.name, _type_names(one.allowed), "") for one in operator.types],
        attributes=[_native_attribute(one) for one in operator.attributes],
    )
    return _inferring(schema, functools.partial(_infer_native, operator))


def _inferring(schema: OpSchema, infer: Callable[[Any], None]) -> OpSchema:
    if hasattr(schema, "set_type_and_shape_inference_function"):  # from onnx 1.19 on
        schema.set_type_and_shape_inference_function(infer)
    return schema


def _type_names(allowed: Sequence[int]) -> list[str]:
    """Of all types that this onnx knows, where any is allowed."""
    known = onnx.TensorProto.DataType.values()
    every = [number for number in _signature.ELEMENT_TYPES.values() if number in known]
    return [f"tensor({_pyop.ELEMENT_TYPES[number].onnx_name})" for number in allowed or every]


def _parameter(operator: Operator, parameter: _signature.Parameter) -> OpSchema.FormalParameter:
    _, is_tied = operator.signature.types[parameter.type]
    return OpSchema.FormalParameter(
        parameter.name,
        f"T{parameter.type}",
        "",
        param_option=_OPTIONS[parameter.occurrence],
        is_homogeneous=is_tied,
        min_arity=0 if parameter.occurrence == _signature.VARIADIC else 1,
    )


def _native_parameter(operator: NativeOperator, one: _packs.Parameter) -> OpSchema.FormalParameter:
    return OpSchema.FormalParameter(
        one.name,
        operator.types[one.type].name,
        one.description,
        param_option=_OPTIONS[one.occurrence],
        is_homogeneous=operator.types[one.type].is_tied,
        min_arity=one.minimum,
    )


def _output(operator: Operator, parameter: _signature.Parameter) -> OpSchema.FormalParameter:
    """A node may leave out any of several outputs."""
    if len(operator.signature.outputs) > 1:
        optional = dataclasses.replace(parameter, occurrence=_signature.OPTIONAL)
        return _parameter(operator, optional)
    return _parameter(operator, parameter)


def _attribute(attribute: _signature.Attribute) -> OpSchema.Attribute:
    if attribute.is_required or attribute.default is None:
        kind = OpSchema.AttrType(attribute.kind)
        return OpSchema.Attribute(attribute.name, kind, "", required=attribute.is_required)
    default = attribute.default
    if attribute.kind == _signature.TENSOR:
        default = numpy_helper.from_array(
            default.astype(object) if default.dtype.kind in "US" else default
        )
    elif attribute.kind == _signature.INT:
        default = int(default)
    elif attribute.kind == _signature.INTS:
        default = [int(one) for one in default]
    elif attribute.kind == _signature.FLOATS:
        default = [float(one) for one in default]
    elif attribute.kind == _signature.FLOAT:
        default = float(default)
    value = helper.make_attribute(attribute.name, default, attr_type=attribute.kind)
    return OpSchema.Attribute(attribute.name, value, "")


def _native_attribute(one: _packs.Attribute) -> OpSchema.Attribute:
    if one.default is None:
        kind = OpSchema.AttrType(one.kind)
        return OpSchema.Attribute(one.name, kind, one.description, required=one.is_required)
    default = one.default
    if one.kind == AttributeProto.TENSOR:
        default = numpy_helper.from_array(default)
    value = helper.make_attribute(one.name, default, attr_type=one.kind)
    return OpSchema.Attribute(one.name, value, one.description)


def _infer(operator: Operator, context: Any) -> None:
    """Types by the signature, shapes by the rule."""
    signature = operator.signature
    types: dict[int, int] = {}  # by type variable, of the first value that has it
    shapes: list[Any] = []
    for index in range(context.get_num_inputs()):
        parameter = signature.inputs[min(index, len(signature.inputs) - 1)]
        value = context.get_input_type(index) if context.has_input(index) else None
        if value is None or not value.HasField("tensor_type"):
            shapes.append(None if value is None else ...)
            continue
        types.setdefault(parameter.type, value.tensor_type.elem_type)
        has_shape = value.tensor_type.HasField("shape")
        shapes.append(_known_shape(value.tensor_type.shape) if has_shape else ...)
    count = context.get_num_outputs()
    inferred: list[Any] = [None] * count
    if operator.rule is not None:
        shapes += [None] * (len(signature.inputs) - len(shapes))
        if signature.inputs and signature.inputs[-1].occurrence == _signature.VARIADIC:
            shapes = shapes[: max(context.get_num_inputs(), len(signature.inputs) - 1)]
        total = count if _declare.count_outputs(signature) < 0 else len(signature.outputs)
        inferred = _declare.infer(
            operator.full_name, shapes, _given(signature.attributes, context), total
        )
    for index in range(count):
        parameter = signature.outputs[min(index, len(signature.outputs) - 1)]
        allowed, _ = signature.types[parameter.type]
        element_type = allowed[0] if len(allowed) == 1 else types.get(parameter.type)
        if element_type is None:
            continue
        _set_output(context, index, element_type, inferred[index])


def _infer_native(operator: NativeOperator, context: Any) -> None:
    """Types by the declaration, shapes by the C++ rule."""
    inputs: list[Any] = []
    for index in range(context.get_num_inputs()):
        value = context.get_input_type(index) if context.has_input(index) else None
        if value is None or not value.HasField("tensor_type"):
            inputs.append(None)
            continue
        has_shape = value.tensor_type.HasField("shape")
        shape = _known_shape(value.tensor_type.shape) if has_shape else None
        inputs.append((value.tensor_type.elem_type, shape, _constant(context, index)))
    given = _given(operator.attributes, context)
    inferred = _pyop.infer_native(
        operator.full_name, operator.since_version, inputs, given, context.get_num_outputs()
    )
    for index, (element_type, shape) in enumerate(inferred):
        if element_type != 0:
            _set_output(context, index, element_type, shape)


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


def _set_output(
    context: Any, index: int, element_type: int, shape: Sequence[int | str | None] | None
) -> None:
    """Tells onnx what is inferred of an output."""
    output = TypeProto()
    output.tensor_type.elem_type = element_type
    if shape is not None:
        output.tensor_type.shape.SetInParent()
        for size in shape:
            dimension = output.tensor_type.shape.dim.add()
            if isinstance(size, int):
                dimension.dim_value = size
            elif size is not None:
                dimension.dim_param = size
    context.set_output_type(index, output)


def _known_shape(shape: onnx.TensorShapeProto) -> tuple[int | str | None, ...]:
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in shape.dim
    )


def _given(attributes: Iterable[Any], context: Any) -> dict[str, Any]:
    given = {}
    for attribute in attributes:
        value: AttributeProto | None = context.get_attribute(attribute.name)
        if value is None:
            continue
        given[attribute.name] = helper.get_attribute_value(value)
        if value.type == AttributeProto.TENSOR:
            given[attribute.name] = numpy_helper.to_array(given[attribute.name])
    return given


def record_modules(model: onnx.ModelProto) -> None:
    """Writes into the model which modules declare its operators, for hosts that are not this
    process."""
    for operator in _used(model):
        key = f"opgraft.module.{operator.full_name}"
        entry = next((one for one in model.metadata_props if one.key == key), None)
        entry = entry or model.metadata_props.add(key=key)
        entry.value = operator.module


def _used(model: onnx.ModelProto) -> list[Operator]:
    used = set()
    waiting = [model.graph.node, *(function.node for function in model.functions)]
    while waiting:
        for node in waiting.pop():
            domain = "" if node.domain == "ai.onnx" else node.domain
            used.add(f"{domain}::{node.op_type}")
            for attribute in node.attribute:
                waiting += [graph.node for graph in (attribute.g, *attribute.graphs)]
    return [one for one in _declare.operators() if one.full_name in used]


def reference_operators() -> list[type]:
    """For `onnx.reference.ReferenceEvaluator(model, new_ops=...)`."""

    def run(self: Any, *inputs: Any, operator: Operator, **given: Any) -> tuple[Any, ...]:
        return operator.run(inputs, given, len(self.onnx_node.output))

    def run_native(self: Any, *inputs: Any, full_name: str, **given: Any) -> tuple[Any, ...]:
        version = self.run_params.get("opsets", {}).get(full_name.partition("::")[0], 0)
        present = {key: value for key, value in given.items() if value is not None}
        count = len(self.onnx_node.output)
        return tuple(_pyop.run_native(full_name, version, list(inputs), present, count))

    declared = [
        (operator.name, operator.domain, functools.partialmethod(run, operator=operator))
        for operator in _declare.operators()
    ]
    native = {
        (one.name, one.domain): functools.partialmethod(run_native, full_name=one.full_name)
        for one in _packs.operators()
        if one.domain
    }
    # Without a schema, no defaults are given: onnx would take those of an operator of its own that
    # has the same name.
    return [
        type(name, (OpRun,), {"op_domain": domain, "op_schema": None, "_run": method})
        for name, domain, method in [*declared, *((*key, one) for key, one in native.items())]
    ]


def _teach_reference() -> None:
    """Lets onnx's reference evaluator know declared operators without being given them."""
    original: Callable[..., None] = ReferenceEvaluator.__init__

    @functools.wraps(original)
    def init(
        self: Any, *arguments: Any, new_ops: Sequence[type] | None = None, **more: Any
    ) -> None:
        given: Mapping[tuple[str, str], type] = {
            (getattr(one, "op_domain", ""), one.__name__): one for one in new_ops or ()
        }
        own = [
            one
            for one in reference_operators()
            if (one.op_domain, one.__name__) not in given  # type: ignore[attr-defined]
        ]
        original(self, *arguments, new_ops=[*(new_ops or ()), *own], **more)

    ReferenceEvaluator.__init__ = init


_teach_reference()
