"""`convert_sklearn`, whose converters may add nodes of any domain, and `add_pyop`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import skl2onnx

from opgraft._base._errors import Error
from opgraft.sklearn import _private


def convert_sklearn(
    model: Any,
    name: str | None = None,
    initial_types: Sequence[tuple[str, Any]] | None = None,
    doc_string: str = "",
    target_opset: Any = None,
    custom_conversion_functions: dict[Any, Any] | None = None,
    custom_shape_calculators: dict[Any, Any] | None = None,
    custom_parsers: dict[Any, Any] | None = None,
    options: dict[Any, Any] | None = None,
    intermediate: bool = False,
    white_op: set[str] | None = None,
    black_op: set[str] | None = None,
    final_types: Sequence[tuple[str, Any]] | None = None,
    dtype: Any = None,
    naming: Any = None,
    model_optim: bool = True,
    verbose: int = 0,
) -> Any:
    """Converts as `skl2onnx.convert_sklearn` does, with the same arguments.

    Custom converters may add nodes of other domains, such as PyOp nodes, with any `op_version`. The
    model imports the domain in the highest version that they used.
    """
    with _private.any_version_of_other_domains() as versions:
        converted = skl2onnx.convert_sklearn(
            model,
            name=name,
            initial_types=initial_types,
            doc_string=doc_string,
            target_opset=target_opset,
            custom_conversion_functions=custom_conversion_functions,
            custom_shape_calculators=custom_shape_calculators,
            custom_parsers=custom_parsers,
            options=options,
            intermediate=intermediate,
            white_op=white_op,
            black_op=black_op,
            final_types=final_types,
            dtype=dtype,
            naming=naming,
            model_optim=model_optim,
            verbose=verbose,
        )
    proto = converted[0] if intermediate else converted
    for entry in proto.opset_import:
        entry.version = versions.get(entry.domain, entry.version)
    return converted


def add_pyop(
    scope: Any,
    operator: Any,
    container: Any,
    module: str,
    class_name: str,
    *,
    domain: str = "opgraft.pyop",
    compute: str = "compute",
    **attributes: Any,
) -> None:
    """Adds a PyOp node to a conversion, for use in your own converter.

    It has the inputs and outputs of the skl2onnx operator, with their types, and runs
    `module.class_name`, whose `__init__` gets the other attributes. Attributes may be numbers,
    strings, lists of these, and arrays, which become tensors.

    >>> def convert_nmf(scope, operator, container):
    ...     add_pyop(scope, operator, container, "mymodule", "MyNmf", W=W)
    """
    taken = {"input_types", "output_types", "module", "class_name"} & attributes.keys()
    if taken:
        raise Error(
            f"add_pyop({module}.{class_name}): the node itself sets '{min(taken)}'. Fix: give the "
            "attribute another name"
        )
    container.add_node(
        "PyOp",
        [one.full_name for one in operator.inputs],
        [one.full_name for one in operator.outputs],
        name=scope.get_unique_operator_name(class_name),
        op_domain=domain,
        op_version=1,
        module=module,
        class_name=class_name,
        compute=compute,
        input_types=[element_type(one) for one in operator.inputs],
        output_types=[element_type(one) for one in operator.outputs],
        **{key: as_attribute(value) for key, value in attributes.items()},
    )


def element_type(variable: Any) -> int:
    """Returns ONNX's number for the element type of a variable."""
    type_proto = variable.type.to_onnx_type()
    if not type_proto.HasField("tensor_type"):
        raise Error(
            f"'{variable.full_name}' is {type(variable.type).__name__}; a Python node takes and "
            "returns only tensors"
        )
    return int(type_proto.tensor_type.elem_type)


def as_attribute(value: Any) -> Any:
    import numpy as np
    from onnx import numpy_helper

    if isinstance(value, np.ndarray):
        return numpy_helper.from_array(value)
    return value.item() if isinstance(value, np.generic) else value
