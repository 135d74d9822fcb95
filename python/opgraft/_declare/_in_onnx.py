"""Registers our operators in the package onnx: schema, shape inference, reference evaluation.

Imported only once onnx is imported.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TypeProto, helper, numpy_helper
from onnx.defs import OpSchema

# Imported before we register any schema: the import fails if two domains have an operator of the
# same name.
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from opgraft import _pyop
from opgraft._declare import _declare, _packs, _signature
from opgraft._declare._declare import Operator

_registered: dict[str, Operator] = {}
_registered_native: set[tuple[str, int]] = set()

_OPTIONS = {
    _signature.REQUIRED: OpSchema.FormalParameterOption.Single,
    _signature.OPTIONAL: OpSchema.FormalParameterOption.Optional,
    _signature.VARIADIC: OpSchema.FormalParameterOption.Variadic,
}


def register_declared() -> None:
    """Registers the schemas of all operators that are new or have been declared again."""
    for operator in _declare.operators():
        name, domain = operator.schema.name, operator.schema.domain
        known = _registered.get(operator.full_name)
        if known is operator:
            continue
        if known is None and onnx.defs.has(name, domain):
            continue  # a schema of onnx's own, or of another package, is not replaced
        _registered[operator.full_name] = operator  # even if it fails: do not try again
        try:
            schema = _schema(operator.schema, functools.partial(_infer, operator))
            if known is not None and onnx.defs.has(name, domain):
                onnx.defs.deregister_schema(name, 1, domain)
            onnx.defs.register_schema(schema)
        except Exception as error:  # must not fail, since this may run during an import of onnx
            _warn(operator.full_name, error)


def register_native() -> None:
    """Registers the schemas of all operators of packs that are new."""
    for schema in _packs.operators():
        key = schema.full_name, schema.since_version
        if key in _registered_native:
            continue
        _registered_native.add(key)  # even if it fails: do not try again
        if schema.domain == "":
            continue  # onnx's own
        try:
            infer = functools.partial(_infer_native, schema)
            onnx.defs.register_schema(_schema(schema, infer))
        except Exception as error:  # must not fail, since this may run during an import of onnx
            _warn(schema.full_name, error)


def _warn(full_name: str, error: Exception) -> None:
    warnings.warn(
        f"onnx {onnx.__version__} refuses the schema of {full_name}: {error}", stacklevel=3
    )


def _schema(schema: _pyop.Schema, infer: Callable[[Any], None]) -> OpSchema:
    used = {one.type for one in (*schema.inputs, *schema.outputs)}
    made = OpSchema(
        schema.name,
        schema.domain,
        schema.since_version,
        schema.documentation,
        inputs=[_parameter(schema, one, one.occurrence) for one in schema.inputs],
        outputs=[_output(schema, one) for one in schema.outputs],
        type_constraints=[
            (one.name, _type_names(one.allowed), "")
            for index, one in enumerate(schema.types)
            if index in used
        ],
        attributes=[_attribute(one) for one in schema.attributes],
    )
    if hasattr(made, "set_type_and_shape_inference_function"):  # onnx 1.19 and newer
        made.set_type_and_shape_inference_function(infer)
    return made


def _type_names(allowed: Sequence[int]) -> list[str]:
    """Returns onnx's names of the types; all that this onnx knows if any type is allowed."""
    known = onnx.TensorProto.DataType.values()
    every = [number for number in _signature.ELEMENT_TYPES.values() if number in known]
    return [f"tensor({_pyop.ELEMENT_TYPES[number].onnx_name})" for number in allowed or every]


def _parameter(
    schema: _pyop.Schema, one: _pyop.Parameter, occurrence: int
) -> OpSchema.FormalParameter:
    return OpSchema.FormalParameter(
        one.name,
        schema.types[one.type].name,
        one.description,
        param_option=_OPTIONS[occurrence],
        is_homogeneous=schema.types[one.type].is_tied,
        min_arity=one.minimum if occurrence == _signature.VARIADIC else 1,
    )


def _output(schema: _pyop.Schema, one: _pyop.Parameter) -> OpSchema.FormalParameter:
    """A node may leave out any of several outputs of a Python operator."""
    may_be_left_out = not schema.is_native and len(schema.outputs) > 1
    return _parameter(schema, one, _signature.OPTIONAL if may_be_left_out else one.occurrence)


def _attribute(one: _pyop.AttributeParameter) -> OpSchema.Attribute:
    default = one.default
    if default is None:
        kind = OpSchema.AttrType(one.kind)
        return OpSchema.Attribute(one.name, kind, one.description, required=one.is_required)
    if one.kind == AttributeProto.TENSOR:
        if default.dtype.kind == "O":
            texts = [text.encode("utf-8", "surrogateescape") for text in default.flat]
            default = np.array(texts, object).reshape(default.shape)
        default = numpy_helper.from_array(default)
    value = helper.make_attribute(one.name, default, attr_type=one.kind)
    return OpSchema.Attribute(one.name, value, one.description)


def _infer(operator: Operator, context: Any) -> None:
    """Infers the types by the schema, and the shapes by the shape rule."""
    schema = operator.schema
    known = _known_inputs(context)
    count = context.get_num_outputs()
    inferred: list[Any] = [None] * count
    if operator.rule is not None:
        shapes: list[Any] = [None if one is None else one[1] for one in known]
        shapes += [None] * (len(schema.inputs) - len(shapes))
        if schema.inputs and schema.inputs[-1].occurrence == _signature.VARIADIC:
            shapes = shapes[: max(context.get_num_inputs(), len(schema.inputs) - 1)]
        is_open = _declare.count_outputs(schema.outputs) < 0
        inferred = _declare.infer(
            operator.full_name,
            shapes,
            _given(schema, context),
            count if is_open else len(schema.outputs),
        )
    types = [0 if one is None else one[0] for one in known]
    for index in range(count):
        _set_output(context, index, schema.output_type(index, types), inferred[index])


def _infer_native(schema: _pyop.Schema, context: Any) -> None:
    """Infers the types by the declaration, and the shapes by the C++ rule."""
    inputs = [
        None
        if one is None or one[0] == 0
        else (one[0], None if one[1] is ... else one[1], _constant(context, index))
        for index, one in enumerate(_known_inputs(context))
    ]
    inferred = _pyop.infer_native(
        schema.full_name,
        schema.since_version,
        inputs,
        _given(schema, context),
        context.get_num_outputs(),
    )
    for index, (element_type, shape) in enumerate(inferred):
        _set_output(context, index, element_type, shape)


def _known_inputs(context: Any) -> list[tuple[int, Any] | None]:
    """Returns for each input its type (0 if it is not a tensor) and its shape (`...` if that is
    unknown), or None if it is absent."""
    known: list[tuple[int, Any] | None] = []
    for index in range(context.get_num_inputs()):
        value = context.get_input_type(index) if context.has_input(index) else None
        if value is None:
            known.append(None)
            continue
        tensor = value.tensor_type if value.HasField("tensor_type") else TypeProto.Tensor()
        shape = _known_shape(tensor.shape) if tensor.HasField("shape") else ...
        known.append((tensor.elem_type, shape))
    return known


def _constant(context: Any, index: int) -> Any:
    """Returns the elements of an input as an array if onnx knows them, otherwise None."""
    constant = context.get_input_data(index)
    if constant is not None:
        return numpy_helper.to_array(constant)
    # Elements that were computed from a shape: onnx knows them if it was asked to propagate data.
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
    """Tells onnx the inferred type and shape of an output, unless the type is unknown."""
    if element_type == 0:
        return
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


def _given(schema: _pyop.Schema, context: Any) -> dict[str, Any]:
    given = {}
    for attribute in schema.attributes:
        value: AttributeProto | None = context.get_attribute(attribute.name)
        if value is None:
            continue
        given[attribute.name] = helper.get_attribute_value(value)
        if value.type == AttributeProto.TENSOR:
            given[attribute.name] = numpy_helper.to_array(given[attribute.name])
    return given


def record_modules(model: onnx.ModelProto) -> None:
    """Writes into the model which modules declare its operators, for hosts in other processes."""
    for operator in _used(model):
        key = f"opgraft.module.{operator.full_name}"
        entry = next((one for one in model.metadata_props if one.key == key), None)
        entry = entry or model.metadata_props.add(key=key)
        entry.value = operator.schema.module


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
    """Returns the classes for `onnx.reference.ReferenceEvaluator(model, new_ops=...)`."""

    def run(self: Any, *inputs: Any, operator: Operator, **given: Any) -> tuple[Any, ...]:
        return operator.run(inputs, given, len(self.onnx_node.output))

    def run_native(self: Any, *inputs: Any, full_name: str, **given: Any) -> tuple[Any, ...]:
        version = self.run_params.get("opsets", {}).get(full_name.partition("::")[0], 0)
        present = {key: value for key, value in given.items() if value is not None}
        count = len(self.onnx_node.output)
        return tuple(_pyop.run_native(full_name, version, list(inputs), present, count))

    declared = [
        (one.schema.name, one.schema.domain, functools.partialmethod(run, operator=one))
        for one in _declare.operators()
    ]
    native = {
        (one.name, one.domain): functools.partialmethod(run_native, full_name=one.full_name)
        for one in _packs.operators()
        if one.domain
    }
    # The classes have no schema: with one, onnx would fill in the defaults of its own operator of
    # the same name.
    return [
        type(name, (OpRun,), {"op_domain": domain, "op_schema": None, "_run": method})
        for name, domain, method in [*declared, *((*key, one) for key, one in native.items())]
    ]


def _teach_reference() -> None:
    """Makes onnx's reference evaluator find declared operators without `new_ops`."""
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
