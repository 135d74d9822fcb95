"""Writes stubs of the Python code that a model lacks, to be pasted and filled in."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from opgraft._declare._signature import ELEMENT_TYPES
from opgraft._doctor._survey import Attribute, Operator, Value

_MOST_INPUTS = 12  # more than these are written as '*inputs'
_LINE = 100

_TYPE_NAMES = {number: name for name, number in ELEMENT_TYPES.items()}
_SCALARS = {"bool": "np.bool_", "string": "np.str_"}  # the others have the same name
_ATTRIBUTE_TYPES = {
    1: "float",
    2: "int",
    3: "str",
    4: "np.ndarray",
    6: "list[float]",
    7: "list[int]",
    8: "list[str]",
}
_OTHER_KINDS = {5: "GRAPH", 9: "TENSORS", 10: "GRAPHS", 11: "SPARSE_TENSOR", 12: "SPARSE_TENSORS"}
_OTHER_KINDS |= {13: "TYPE_PROTO", 14: "TYPE_PROTOS"}


class Stub(NamedTuple):
    file: str  # where it belongs, relative to a folder on Python's path
    text: str


def class_stub(operator: Operator, file: str | None = None) -> Stub | None:
    """Returns the class that a PyOp runs; None if the model's names are not valid in Python."""
    if not _are_names(*operator.class_name.split("."), operator.compute):
        return None
    *outer, name = operator.class_name.split(".")
    lines = []
    indent = ""
    for one in outer:
        lines.append(f"{indent}class {one}:")
        indent += "    "
    lines.append(f"{indent}class {name}:")
    names = [one for one in operator.attributes if _are_names(one.name) and one.name != "self"]
    if operator.attributes:
        names.sort(key=lambda one: one.count < operator.count)
        parameters = [
            f"{one.name}: {_ATTRIBUTE_TYPES.get(one.kind, 'object')}"
            + (" | None = None" if one.count < operator.count else "")
            for one in names
        ]
        if len(names) < len(operator.attributes):
            parameters.append("**others: object")
        lines += _definition("__init__", ["self", *parameters], "None", indent + "    ")
        lines += [f"{indent}        self.{one.name} = {one.name}" for one in names]
        lines += [f"{indent}        pass"] if not names else []
        lines.append("")
    lines += [indent + "    " + line if line else "" for line in _method(operator)]
    head = "import numpy as np\n\n\n"
    return Stub(file or _file_of(operator.module), head + "\n".join(lines) + "\n")


def method_stub(operator: Operator, file: str) -> Stub | None:
    """Returns the method that a class lacks."""
    if not _are_names(operator.compute):
        return None
    text = "\n".join("    " + line if line else "" for line in _method(operator))
    return Stub(file, f"    # in class {operator.class_name}\n{text}\n")


def _method(operator: Operator) -> list[str]:
    taken = {"self"}
    names = [_identifier(value.name, taken, index) for index, value in enumerate(operator.inputs)]
    parameters = names
    optional = _first_optional(operator.inputs, operator.count)
    if len(names) > _MOST_INPUTS:
        parameters = ["*inputs"]
    elif optional is not None:
        parameters = names[:optional] + [f"{name}=None" for name in names[optional:]]
    lines = _definition(operator.compute, ["self", *parameters], None, "")
    taking = [
        f"{name}: {_type_name(value)}"
        for name, value in zip(names, operator.inputs, strict=True)
        if value.count
    ]
    giving = [f"{value.name or '-'}: {_type_name(value)}" for value in operator.outputs]
    lines += _comment("takes", taking) + _comment("returns", giving)
    lines.append("    raise NotImplementedError")
    return lines


def operator_stub(operator: Operator, module: str | None = None) -> Stub | None:
    """Returns a declaration by @opgraft.op, for nodes whose operator is not defined.

    Returns None if the name cannot be declared. A name from the model never ends a string.
    """
    domain, _, name = operator.full_name.partition("::")
    if not re.fullmatch(r"[\w.\-/+]*", domain) or not re.fullmatch(r"\w+", name):
        return None
    # Not just the domain's name, which may be the name of a package.
    module = module or _identifier(domain.rpartition(".")[2] or "onnx", set()) + "_operators"
    attributes, notes = _attributes(operator)
    taken = {attribute.name for attribute in operator.attributes}
    inputs = operator.inputs
    parameters: list[str] = []
    optional = _first_optional(inputs, operator.count)
    if len(inputs) > _MOST_INPUTS and optional is None:
        parameters.append("*inputs: np.ndarray")
    else:
        for index, value in enumerate(inputs):
            annotation = _array(value)
            if optional is not None and index >= optional:
                annotation += " | None = None"
            parameters.append(f"{_identifier(value.name, taken, index)}: {annotation}")
    if attributes:
        parameters += ["*", *attributes]
    outputs, unknown = _outputs(operator)
    if unknown:
        notes.append(unknown)
    # No import from __future__, because the stub may be pasted below other code.
    lines = ["import numpy as np"]
    if any("npt." in part for part in [*parameters, outputs]):
        lines.append("import numpy.typing as npt")
    lines += ["", "import opgraft", "", ""]
    if any("ml_dtypes." in part for part in [*parameters, outputs]):
        lines.insert(0, "import ml_dtypes")
    lines += [f"# {note}" for note in notes]
    lines.append(f'@opgraft.op("{domain or "ai.onnx"}::{name}")')
    function = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    lines += _definition(_identifier(function, set()), parameters, outputs, "")
    lines.append("    raise NotImplementedError")
    return Stub(_file_of(module), "\n".join(lines) + "\n")


def _attributes(operator: Operator) -> tuple[list[str], list[str]]:
    """Returns the keyword parameters, and notes on attributes that cannot be parameters."""
    parameters, notes = [], []
    for attribute in operator.attributes:
        annotation = _ATTRIBUTE_TYPES.get(attribute.kind)
        problem = _problem_of(attribute)
        if problem or annotation is None:
            notes.append(f"its attribute '{attribute.name}' cannot be declared: {problem}")
        elif attribute.count < operator.count:
            parameters.append(f"{attribute.name}: {annotation} | None = None")
        else:
            parameters.append(f"{attribute.name}: {annotation}")
    return parameters, notes


def _problem_of(attribute: Attribute) -> str:
    if not _are_names(attribute.name):
        return "its name is not valid in Python"
    if attribute.name == "out":
        return "'out' is the name of the parameter for the runtime's memory"
    if attribute.kind in _ATTRIBUTE_TYPES:
        return ""
    kind = _OTHER_KINDS.get(attribute.kind)
    return f"it is of ONNX's kind {kind}" if kind else "its kind is not the same in all nodes"


def _outputs(operator: Operator) -> tuple[str, str]:
    """Returns the return annotation, and a note on it."""
    unknown = [value for value in operator.outputs if value.element_type not in _TYPE_NAMES]
    note = ""
    annotations = []
    for value in operator.outputs:
        annotation = _array(value)
        if value in unknown and not operator.inputs:
            annotation = "npt.NDArray[np.float32]"
            note = "the model does not say which types the outputs have: float32 is a guess"
        elif value in unknown:
            note = "np.ndarray as an output has the type of the first input; the model does not say"
        annotations.append(annotation)
    if not annotations:
        return "None", note
    if len(annotations) == 1:
        return annotations[0], note
    return f"tuple[{', '.join(annotations)}]", note


def _array(value: Value) -> str:
    name = _TYPE_NAMES.get(value.element_type)
    if name is None:
        return "np.ndarray"
    is_numpys = name in _SCALARS or re.fullmatch(r"(u?int|float)(8|16|32|64)", name)
    scalar = _SCALARS.get(name, f"np.{name}" if is_numpys else f"ml_dtypes.{name}")
    return f"npt.NDArray[{scalar}]"


def _are_names(*texts: str) -> bool:
    return all(text.isidentifier() and not keyword.iskeyword(text) for text in texts)


def _type_name(value: Value) -> str:
    return _TYPE_NAMES.get(value.element_type, "any type")


def _first_optional(values: Sequence[Value], nodes: int) -> int | None:
    """Returns the index of the first value that may be absent: all after it need a default."""
    return next((i for i, value in enumerate(values) if value.count < nodes), None)


def _identifier(text: str, taken: set[str], index: int | None = None) -> str:
    """Returns a valid Python name similar to `text` that is not in `taken`, and adds it there."""
    name = re.sub(r"\W+", "_", text.rpartition("/")[2]).strip("_")
    if not name or not name.isidentifier():
        name = (
            f"x{'' if index is None else index}" if not name or index is not None else f"x_{name}"
        )
    if keyword.iskeyword(name):
        name += "_"
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name}_{number}", number + 1
    taken.add(unique)
    return unique


def _definition(
    name: str, parameters: Iterable[str], returned: str | None, indent: str
) -> list[str]:
    parameters = list(parameters)
    arrow = f" -> {returned}" if returned is not None else ""
    line = f"{indent}def {name}({', '.join(parameters)}){arrow}:"
    if len(line) <= _LINE:
        return [line]
    return [
        f"{indent}def {name}(",
        *[f"{indent}    {parameter}," for parameter in parameters],
        f"{indent}){arrow}:",
    ]


def _comment(verb: str, values: Sequence[str]) -> list[str]:
    if not values:
        return [f"    # {verb} nothing"]
    line = f"    # {verb} {', '.join(values)}"
    if len(line) <= _LINE:
        return [line]
    return [f"    # {verb}", *[f"    #   {value}" for value in values]]


def _file_of(module: str) -> str:
    return module.replace(".", "/") + ".py"
