"""Torch's operators: their names, their schemas, and who defines them."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._python_dispatch

from opgraft.torch._private.lookup import moved, private

OpOverload = torch._ops.OpOverload
DispatchMode = torch.utils._python_dispatch.TorchDispatchMode


def name_of(overload: OpOverload) -> tuple[str, str]:
    """Returns an operator's name with its namespace, and its overload's ("" for the default)."""
    name, _, overload_name = str(overload.name()).partition(".")  # type: ignore[no-untyped-call]
    return name, "" if overload_name == "default" else overload_name


@dataclass(frozen=True)
class Argument:
    """An argument of an operator, from torch's schema."""

    name: str
    type: str  #: such as "Optional[List[int]]"
    count: int | None  #: the length of a list that a single number may replace
    is_keyword: bool
    has_default: bool
    default: Any


def schema_of(overload: OpOverload) -> tuple[list[Argument], list[str]]:
    """Returns the arguments of an operator and the types of its results."""
    try:
        schema = overload._schema
        arguments = [
            Argument(
                argument.name,
                str(argument.real_type),
                argument.N,  # type: ignore[attr-defined]
                argument.kwarg_only,
                argument.has_default_value(),
                argument.default_value,
            )
            for argument in schema.arguments
        ]
        returns = [str(value.real_type) for value in schema.returns]
    except AttributeError as error:
        raise moved("OpOverload._schema") from error
    return arguments, returns


def overload_name(overload: OpOverload) -> str:
    return ".".join(filter(None, name_of(overload)))


def is_mutable(overload: OpOverload) -> bool:
    return bool(overload._schema.is_mutable)


def written_arguments(overload: OpOverload) -> list[str]:
    """Returns the names of the arguments that an operator writes to."""
    found = overload._schema.arguments
    return [str(one.name) for one in found if one.alias_info and one.alias_info.is_write]


def lent_arguments(overload: OpOverload) -> list[str]:
    """Returns the names of the arguments whose memory the results may share, by the schema."""
    return [str(one.name) for one in overload._schema.arguments if one.alias_info]


def is_composite(overload: OpOverload) -> bool:
    """Whether an operator calls others. Then its schema need not say whose memory it returns."""
    key = private("torch._C", "DispatchKey").CompositeImplicitAutograd
    try:
        return bool(overload.has_kernel_for_dispatch_key(key))
    except RuntimeError:  # an operator of TorchScript only, such as aten::eq.int_list
        return False


def is_view(target: Any) -> bool:
    """Whether the result always shares the memory of the first argument, which the operator does
    not write to. Composite operators such as reshape may copy, so they are no views."""
    if not isinstance(target, OpOverload) or is_mutable(target):
        return False
    composite = private("torch._C", "DispatchKey").CompositeImplicitAutograd
    if target.has_kernel_for_dispatch_key(composite):
        return False
    returns, arguments = target._schema.returns, target._schema.arguments
    if len(returns) != 1 or not arguments or str(returns[0].real_type) != "Tensor":
        return False
    return returns[0].alias_info is not None and arguments[0].alias_info is not None


def is_builtin(target: Any) -> bool:
    """Whether a node calls a Python function, such as operator.getitem, instead of an operator."""
    return not isinstance(target, (OpOverload, private("torch._ops", "HigherOrderOperator")))


def namespace_of(overload: OpOverload) -> str:
    return str(overload.namespace)


def find_operator(name: str, overload: str) -> Any:
    """Returns `torch.ops.<namespace>.<name>.<overload>`, or None."""
    namespace, _, rest = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), rest, None)
    found = getattr(packet, overload or "default", None)
    return found if isinstance(found, OpOverload) else None


#: The namespaces of the operators that torch itself defines in C++. `prim` is TorchScript's.
_OWN = frozenset(
    """_c10d_functional _c10d_functional_autograd _dtensor _native_aot _quantized _test aten c10d
    fsdp inductor inductor_prims mkl mkldnn mkldnn_prepacked onednn prepacked prim profiler
    quantization quantized sparse static_runtime symm_mem""".split()
)


def is_torchs_own(overload: OpOverload) -> bool:
    """Whether the operator is one of torch's own C++ operators."""
    is_python = definition_file(overload).endswith(".py")
    return namespace_of(overload) in _OWN and not is_python


def definition_file(overload: OpOverload) -> str:
    """Returns the source file that defines an operator, from its registration."""
    dump = str(private("torch._C", "_dispatch_dump")(overload_name(overload)))
    line = next((line for line in dump.splitlines() if line.startswith("debug: ")), "")
    return line.removeprefix("debug: registered at ").rpartition(":")[0]


def defining_module(overload: OpOverload) -> str:
    """Returns the Python module that defines an operator, or "" if it is unknown."""
    definition = private("torch._library.custom_ops", "OPDEFS").get(overload_name(overload))
    if definition is not None:
        return str(getattr(getattr(definition, "_init_fn", None), "__module__", ""))
    file = definition_file(overload)
    modules = list(sys.modules.items())  # a copy, since reading __file__ may import others
    found = (name for name, one in modules if getattr(one, "__file__", None) == file)
    return next(found, "")


def is_defined_in(overload: OpOverload, module: str) -> bool:
    """Whether that module, which may have other names too, defines an operator."""
    if defining_module(overload) == module:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return bool(file) and definition_file(overload) == file


def functional_overloads(name: str) -> list[Any]:
    """Returns the overloads of an operator (namespace::name) that write to no argument."""
    namespace, _, operator = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    if not isinstance(packet, private("torch._ops", "OpOverloadPacket")):
        return []
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    try:
        return [overload for overload in overloads if not overload._schema.is_mutable]
    except AttributeError as error:
        raise moved("OpOverload._schema") from error


def parameters_of(overload: Any) -> list[tuple[str, str, Any]]:
    """Returns name, type and default value (None if there is none) of each argument."""
    try:
        return [
            (argument.name, str(argument.real_type), argument.default_value)
            for argument in overload._schema.arguments
        ]
    except AttributeError as error:
        raise moved("OpOverload._schema") from error


def returns_of(overload: Any) -> list[str]:
    """Returns the types of an operator's results."""
    return [str(value.real_type) for value in overload._schema.returns]


def schema_text(overload: Any) -> str:
    return str(overload._schema)


def find_target(name: str) -> Any:
    """Returns the target of torch.export's nodes for namespace::name.overload, or None."""
    namespace, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    if namespace in ("_operator", "math"):
        return getattr(importlib.import_module(namespace), operator, None)
    return getattr(getattr(getattr(torch.ops, namespace), operator, None), overload, None)
