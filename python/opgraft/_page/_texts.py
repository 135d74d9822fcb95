"""Types, attributes and constants of a model as short texts for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_MOST_ELEMENTS = 16
_LONGEST_TEXT = 1000
_NAMES = {"float": "float32", "double": "float64", "undefined": "any type"}


def shortened(text: str, longest: int = _LONGEST_TEXT) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def type_text(value_type: Any) -> str:
    """Such as "float32[batch, 3]"; "" if the model does not say."""
    kind = value_type.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(value_type, kind)
        name = element_text(tensor.elem_type)
        if not tensor.HasField("shape"):
            return name
        return name + _shape_text(_size_text(one) for one in tensor.shape.dim)
    if kind in ("sequence_type", "optional_type"):
        inner = type_text(getattr(value_type, kind).elem_type)
        return f"{kind.removesuffix('_type')} of {inner or 'any type'}"
    if kind == "map_type":
        key = element_text(value_type.map_type.key_type)
        return f"map from {key} to {type_text(value_type.map_type.value_type) or 'any type'}"
    return ""


def tensor_type_text(tensor: Any) -> str:
    return element_text(tensor.data_type) + _shape_text(map(str, tensor.dims))


def element_text(number: int) -> str:
    import onnx

    try:
        name = onnx.TensorProto.DataType.Name(number).lower()
    except ValueError:
        return f"type {number}"
    return str(_NAMES.get(name, name))


def tensor_text(tensor: Any) -> str:
    """The type of a constant, and its elements if they are few."""
    import onnx.numpy_helper

    text = tensor_type_text(tensor)
    count = 1
    for size in tensor.dims:
        count *= max(size, 0)
    if count > _MOST_ELEMENTS or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return text
    try:
        elements = onnx.numpy_helper.to_array(tensor).ravel().tolist()
    except Exception:  # data that does not fit its type; ONNX Runtime will say more
        return text
    return f"{text} = {_list_text(elements, bool(tensor.dims))}"


def attribute_text(attribute: Any) -> str:
    """The value of an attribute; graphs are drawn, so that only their names are given."""
    import onnx

    kinds = onnx.AttributeProto
    if attribute.ref_attr_name:
        return f"the attribute '{attribute.ref_attr_name}' of the function"
    kind = attribute.type
    if kind == kinds.STRING:
        return shortened(_string_text(attribute.s))
    if kind == kinds.STRINGS:
        return _list_text([_string_text(one) for one in attribute.strings])
    if kind == kinds.INT:
        return str(attribute.i)
    if kind == kinds.FLOAT:
        return f"{attribute.f:.9g}"
    if kind in (kinds.INTS, kinds.FLOATS):
        return _list_text(attribute.ints if kind == kinds.INTS else attribute.floats)
    if kind == kinds.TENSOR:
        return tensor_text(attribute.t)
    if kind == kinds.TENSORS:
        return _list_text([tensor_type_text(one) for one in attribute.tensors])
    if kind in (kinds.GRAPH, kinds.GRAPHS):
        graphs = [attribute.g] if kind == kinds.GRAPH else attribute.graphs
        return ", ".join(f"graph '{one.name}', {len(one.node)} nodes" for one in graphs)
    if kind == kinds.TYPE_PROTO:
        return type_text(attribute.tp)
    return "of a kind that is not shown"


def _string_text(value: bytes) -> str:
    return f'"{value[:_LONGEST_TEXT].decode(errors="replace")}"'


def _list_text(values: Sequence[Any], is_list: bool = True) -> str:
    shown = [
        f"{one:.9g}" if isinstance(one, float) else str(one) for one in values[:_MOST_ELEMENTS]
    ]
    more = f", … {len(values)} in all" if len(values) > _MOST_ELEMENTS else ""
    text = ", ".join(shown) + more
    return shortened(f"[{text}]" if is_list else text)


def _size_text(dimension: Any) -> str:
    if dimension.HasField("dim_value"):
        return str(dimension.dim_value)
    return dimension.dim_param or "?"


def _shape_text(sizes: Iterable[str]) -> str:
    return f"[{', '.join(sizes)}]"
