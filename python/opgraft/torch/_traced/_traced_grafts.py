"""Translates operators of a trace that torch's TorchScript exporter lacks, by the same ladder as
for captured programs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir
import torch

from opgraft._base._errors import Error, UnavailableError
from opgraft.torch import _private
from opgraft.torch._graphs._error_lines import titled_line
from opgraft.torch._graphs._graph import operator_name
from opgraft.torch._private import Traced, TracedNode
from opgraft.torch._program._dispatch import STANDARD, USER
from opgraft.torch._program._report import foreign_of
from opgraft.torch._rungs import _functions, _ladder
from opgraft.torch._rungs._ladder import Graft
from opgraft.torch._traced._traced_alone import holds_alone
from opgraft.torch._traced._traced_corrections import CORRECTIONS, LOWEST_OPSET

#: The domain and name of the nodes that stand in for grafts until the model exists.
DOMAIN, NAME = "ai.opgraft.traced", "StandIn"


@dataclass
class Became:
    """What one node of the trace became."""

    operator: str
    kind: str
    names: list[str]
    graft: Graft | None = None
    because: str = ""
    #: Whether something other than torch's symbolic function translated it.
    is_stand_in: bool = False
    #: Those of the operators that ONNX Runtime itself does not have.
    foreign: set[str] = field(default_factory=set)


@dataclass
class _StandIn:
    became: Became
    build: Callable[..., Any]
    node: torch.fx.Node
    inputs: list[Traced]


@dataclass
class Translator:
    """Translates each node of a trace; `finish` then puts the grafts into the model."""

    registry: Any
    kinds: Collection[str]
    opset: int
    #: The names of operators for which the user registered a symbolic function.
    symbolics: Collection[str] = ()
    #: The names of operators whose symbolic functions are not used, and why.
    barred: Mapping[str, str] = field(default_factory=dict)
    became: list[Became] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stand_ins: list[_StandIn] = []
        self._open = _private.OpenTensors()
        added = [one for one in self.registry.functions.values() if one and one[0].is_custom]
        self._users = {
            operator_name(one[0].fx_target).partition(".")[0]
            for one in added
            if isinstance(one[0].fx_target, _private.OpOverload)
        }

    def __call__(self, node: TracedNode, by_torch: Callable[[], Any]) -> Any:
        name = node.name
        if name.startswith(("prim::", "onnx::")):
            given = by_torch()
            if name in ("prim::If", "prim::Loop"):
                self.became.append(Became(name, STANDARD, [name.removeprefix("prim::")]))
            return given
        if name in self._users:
            found = self._stand_in(node, self._by_user)
            if found is not None:
                return found
        if any(map(_functions.takes, _private.functional_overloads(name))):
            found = self._stand_in(node, self._by_function)
            if found is not None:
                return found
        error: Exception | None = None
        because = self.barred.get(name, "")
        if because:
            found = self._stand_in(node, self._by_ladder, because)
            if found is not None:
                return found
        try:
            given = self._by_symbolic(node, by_torch)
            if given is not None:
                kind = USER if name in self.symbolics else STANDARD
                self.became.append(Became(name, kind, node.made))
                return given
        except Exception as raised:
            if name in self.symbolics:  # the user asked for this function
                raise
            error = raised
            if not _private.is_lacking(raised):
                because = f"torch: {titled_line(raised)}"
        found = self._stand_in(node, self._by_ladder, because)
        if found is None:
            raise UnavailableError(
                f"operator {name} has no translation to ONNX in torch's tracing exporter"
                f"{f' ({because})' if because else ''}, and no allowed fallback takes it. Fix: "
                "allow all fallbacks with fallback='auto', or give a translation with "
                "custom_translation_table={operator: function}"
            ) from error
        return found

    def _by_symbolic(self, node: TracedNode, by_torch: Callable[[], Any]) -> Any:
        correction = CORRECTIONS.get(node.name)
        if correction is None:
            return by_torch()
        if node.opset < LOWEST_OPSET:
            raise UnavailableError(f"{node.name} needs opset {LOWEST_OPSET}")
        return node.call(correction)

    def _stand_in(
        self,
        node: TracedNode,
        choose: Callable[[torch.fx.Node], tuple[str, Graft | None, Any] | None],
        because: str = "",
    ) -> Any:
        call = self._as_fx(node)
        if call is None:
            return None
        chosen = choose(call[0])
        if chosen is None:
            return None
        kind, graft, build = chosen
        became = Became(operator_name(call[0].target), kind, [], graft, because, True)
        self._stand_ins.append(_StandIn(became, build, *call))
        self.became.append(became)
        values = [one.value for one in call[1]]
        return node.stand_in(DOMAIN, NAME, values, len(self._stand_ins) - 1)

    def _by_user(self, node: torch.fx.Node) -> tuple[str, Graft | None, Any] | None:
        added = _private.find_added(node, self.registry)
        return None if added is None else (USER, None, added)

    def _by_function(self, node: torch.fx.Node) -> tuple[str, Graft | None, Any] | None:
        """Our function for the operator, if it is better than torch's own translation."""
        is_better = _functions.replaces_torchs(node, self.opset)
        if not is_better or "function" not in self.kinds:
            return None
        graft = _ladder.find(node, {"function"})
        return None if graft is None else (graft.kind, graft, graft.build)

    def _by_ladder(self, node: torch.fx.Node) -> tuple[str, Graft | None, Any] | None:
        """The translation of torch's other exporter, or else that of the ladder."""
        translation = _private.find_translation(node, self.registry)
        if translation is not None and holds_alone(node):
            return STANDARD, None, translation
        graft = _ladder.find(node, self.kinds)
        return None if graft is None else (graft.kind, graft, graft.build)

    def _as_fx(self, node: TracedNode) -> tuple[torch.fx.Node, list[Traced]] | None:
        """The node in the form of torch.export, and those of its inputs that are values; None if no
        overload of the operator takes these arguments."""
        results = node.results()
        if any(dtype is None or rank is None for dtype, rank in results):
            return None
        given = node.arguments()
        best: tuple[int, Any, list[Any]] | None = None
        for overload in _private.functional_overloads(node.name):
            returns = _private.returns_of(overload)
            if returns != ["Tensor"] * len(results):
                continue
            fit = _fit(overload, given)
            if fit is not None and (best is None or fit[0] < best[0]):
                best = fit[0], overload, fit[1]
        if best is None:
            return None
        _, overload, arguments = best
        graph = torch.fx.Graph()
        inputs: list[Traced] = []

        def placed(value: Any) -> Any:
            if isinstance(value, list):
                return [placed(one) for one in value]
            if not isinstance(value, (Traced, _Number)):
                return value
            traced = value.traced if isinstance(value, _Number) else value
            made = graph.placeholder(f"x{len(inputs)}")
            made.meta["val"] = self._example(value)
            inputs.append(traced)
            return made

        args, kwargs = [], {}
        for argument, value in zip(_private.schema_of(overload)[0], arguments, strict=True):
            if argument.is_keyword:
                kwargs[argument.name] = placed(value)
            else:
                args.append(placed(value))
        call = graph.call_function(overload, tuple(args), kwargs)
        examples = [self._open.tensor(dtype, rank) for dtype, rank in results]  # type: ignore[arg-type]
        call.meta["val"] = examples[0] if len(examples) == 1 else examples
        return call, inputs

    def _example(self, value: Any) -> Any:
        if isinstance(value, _Number):
            return self._open.number()
        return self._open.tensor(value.dtype, value.rank)

    @property
    def has_grafts(self) -> bool:
        return bool(self._stand_ins)

    def finish(self, model: ir.Model) -> None:
        """Replaces the nodes that stand in for grafts."""
        for node in list(model.graph.all_nodes()):
            if node.domain == DOMAIN:
                self._replace(node, self._stand_ins[node.attributes["key"].as_int()], model)
        model.opset_imports.pop(DOMAIN, None)

    def _replace(self, node: ir.Node, stand_in: _StandIn, model: ir.Model) -> None:
        places: dict[ir.Value, ir.Value] = {}

        def build(opset: Any) -> Any:
            values = {}
            given = zip(_placeholders(stand_in.node), stand_in.inputs, node.inputs, strict=True)
            for placeholder, traced, value in given:
                assert value is not None
                is_number = isinstance(placeholder.meta["val"], torch.SymInt)
                own = _private.new_input(
                    opset,
                    torch.int64 if is_number else traced.dtype,
                    0 if is_number else traced.rank,
                )
                own.name = value.name
                values[placeholder] = own
                places[own] = value
            args, kwargs = torch.fx.node.map_arg(
                (stand_in.node.args, dict(stand_in.node.kwargs)), lambda one: values[one]
            )
            named = {name: _in_onnx(one) for name, one in kwargs.items()}
            return stand_in.build(*map(_in_onnx, args), **named)

        try:
            given, nodes, functions = _private.record(self.opset, build)
        except Error:
            raise
        except Exception as error:
            raise UnavailableError(
                f"operator {stand_in.became.operator}: its translation raised {titled_line(error)}"
            ) from error
        _take_inputs(nodes, places)
        graph = node.graph
        assert graph is not None
        graph.insert_before(node, nodes)
        results = list(given) if isinstance(given, Sequence) else [given]
        for old, new in zip(node.outputs, results, strict=True):
            new = places.get(new, new)
            new.name = new.name if new.producer() is None else old.name
            new.dtype, new.shape = old.dtype, old.shape
            ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
        graph.remove(node, safe=False)
        for identifier, function in functions.items():
            if identifier not in model.functions:
                made = function
                if not isinstance(function, ir.Function):
                    made = ir.serde.deserialize_function(function.to_function_proto())
                model.functions[identifier] = made
        for one in nodes:
            model.opset_imports.setdefault(one.domain, one.version or 1)
        became = stand_in.became
        became.names = [f"{one.domain}::{one.op_type}".lstrip(":") for one in nodes]
        if became.graft is not None and became.graft.packs:
            became.foreign |= set(became.names)
        else:
            became.foreign |= set().union(*(foreign_of(one, model.functions) for one in nodes))


def _placeholders(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    return (one for one in node.graph.nodes if one.op == "placeholder")


def _take_inputs(nodes: Sequence[ir.Node], places: Mapping[ir.Value, ir.Value]) -> None:
    """Replaces the placeholder inputs of nodes with the model's values."""
    for node in nodes:
        for index, value in enumerate(node.inputs):
            if value is not None and value in places:
                node.replace_input_with(index, places[value])
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                _take_inputs(list(attribute.as_graph()), places)


@dataclass
class _Number:
    """An integer that depends on the model's inputs."""

    traced: Traced


def _fit(overload: Any, given: Sequence[Any]) -> tuple[int, list[Any]] | None:
    """The number of conversions needed to call an overload, and the arguments; None if they do not
    fit."""
    parameters = _private.schema_of(overload)[0]
    if len(given) > len(parameters):
        return None
    bent, arguments = 0, []
    for index, parameter in enumerate(parameters):
        if index >= len(given):
            if not parameter.has_default:
                return None
            arguments.append(parameter.default)
            continue
        fit = _fit_one(given[index], parameter.type)
        if fit is None:
            return None
        bent += fit[0]
        arguments.append(fit[1])
    return bent, arguments


def _fit_one(value: Any, kind: str) -> tuple[int, Any] | None:
    if kind.startswith("Optional["):
        kind = kind.removeprefix("Optional[").removesuffix("]")
        if value is None:
            return 0, None
    elif value is None:
        return None
    if kind.startswith("List["):
        kind = kind.removeprefix("List[").removesuffix("]")
        if isinstance(value, Traced) and value.constant is not None and value.rank == 1:
            value = value.constant.tolist()
        if not isinstance(value, (list, tuple)):
            return None
        fits = [_fit_one(one, kind) for one in value]
        if any(one is None for one in fits):
            return None
        return sum(one[0] for one in fits if one), [one[1] for one in fits if one]
    if kind == "Tensor":
        if not isinstance(value, Traced) or value.dtype is None or value.rank is None:
            return None
        return (2 if value.constant is not None and value.rank == 0 else 0), value  # a number
    if isinstance(value, Traced):
        if value.constant is None:
            is_number = kind in ("int", "SymInt") and value.rank in (0, None)
            return (1, _Number(value)) if is_number else None
        if value.rank != 0 or kind in ("str", "Device"):
            return None
        value = value.constant.item()
    return _fit_constant(value, kind)


_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "SymInt": (int,),
    "float": (float, int),
    "bool": (bool, int),
    "number": (int, float, bool),
    "Scalar": (int, float, bool),
    "str": (str,),
    "Device": (torch.device, str),
    "ScalarType": (int, torch.dtype),
    "Layout": (int, torch.layout),
    "MemoryFormat": (int, torch.memory_format),
}


def _fit_constant(value: Any, kind: str) -> tuple[int, Any] | None:
    is_one: bool = isinstance(value, _TYPES.get(kind, ()))
    if not is_one:
        return None
    if kind == "bool":
        return int(not isinstance(value, bool)), bool(value)
    if isinstance(value, bool) and kind in ("int", "SymInt", "float"):
        return None
    if kind == "float":
        return int(isinstance(value, int)), float(value)
    if kind == "ScalarType" and isinstance(value, int):
        dtype = _private.dtype_of_number(value)
        return None if dtype is None else (0, dtype)
    return 0, value


def _in_onnx(value: Any) -> Any:
    """An argument as torch's exporter passes it to translations."""
    if isinstance(value, (list, tuple)):
        return [_in_onnx(one) for one in value]
    if isinstance(value, torch.dtype):
        return _private.onnx_type(value)
    if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
        return str(value)
    return value
