"""Decides for each node of a captured program what it becomes in ONNX, and translates it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from opgraft._base._errors import Error, UnavailableError
from opgraft._base._log import tell
from opgraft.torch import _private
from opgraft.torch._capture._missing_fakes import fakes, has_fake
from opgraft.torch._capture._opened import open_operators
from opgraft.torch._graphs import _graph, _user_code, _views
from opgraft.torch._graphs._graph import Place, operator_name
from opgraft.torch._rungs import _functions, _ladder
from opgraft.torch._rungs._ladder import Graft

#: The kinds of nodes that torch or the user has a translation for; the ladder has other kinds.
STANDARD, USER = "standard", "user"
# Two have always been enough: one finds what is missing, one sees that nothing is.
_MOST_ROUNDS = 8


@dataclass
class Choice:
    """What one node became."""

    node: torch.fx.Node
    place: Place
    kind: str
    graft: Graft | None
    #: The operator that the model calls; the node is a part of it.
    origin: str
    #: Why it is not on a better rung: the translation there raised, or gave a wrong result.
    because: str = ""
    #: The arguments that the translation got, and the value or values that it returned.
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    outputs: Any = None
    #: The translation, and what it raised.
    translation: _private.Translate | None = None
    raised: Exception | None = None

    def recording(self, translation: _private.Translate) -> _private.Translate:
        self.translation = translation

        def translate(*args: Any, **kwargs: Any) -> Any:
            self.args, self.kwargs = args, kwargs
            try:
                self.outputs = translation(*args, **kwargs)
            except Exception as error:
                self.raised = error
                raise
            return self.outputs

        return translate


@dataclass
class Translated:
    """A program in ONNX, as translated, and the choice for each node."""

    onnx: Any  # torch.onnx.ONNXProgram
    decomposed: torch.export.ExportedProgram
    choices: dict[torch.fx.Node, Choice] = field(default_factory=dict)


class Dispatcher:
    """Translates one captured program, and again whenever a choice turns out to be wrong."""

    def __init__(
        self,
        captured: torch.export.ExportedProgram,
        registry: Any,
        kinds: Collection[str],
    ) -> None:
        self._captured = captured
        self._registry = registry
        self._kinds = frozenset(kinds)
        # The key has the module too: bodies of control flow may have nodes of the same name.
        self._origins = {
            (module, node.name): node.target for module, node in _graph.calls(captured)
        }
        self._kept: dict[str, Any] = {
            operator_name(target): target for target in self._origins.values() if has_fake(target)
        }
        if "function" in self._kinds:
            self._kept |= _functions.kept(node for _, node in _graph.calls(captured))
        self._opened = open_operators(captured, registry, self._kinds)
        self._barred: dict[Place, dict[str, str]] = {}
        self._decomposed: torch.export.ExportedProgram | None = None
        #: Notes for the report on operators that have no row in it.
        self.notes: list[str] = []

    def translate(self) -> Translated:
        """Translates the program. If a translation raises, the node takes the next rung."""
        while True:
            program = self._decompose()
            attempt = _Attempt(self, program)
            try:
                onnx = _private.translate(program, self._registry, attempt.choose)
            except Exception as error:
                if not attempt.may_retry(error):
                    attempt.raise_for_user(error)
                    ours = _ours(error)
                    raise (ours or attempt.failure(error)) from (None if ours else error)
                continue
            return Translated(onnx, program, attempt.choices)

    def bar(self, choice: Choice, because: str) -> bool:
        """Bars a node from the rung that it is on; False if no other rung is left."""
        barred = self._barred.setdefault(choice.place, {})
        barred[choice.kind] = because
        if choice.kind == USER:  # the user asked for this translation
            return False
        left = self._kinds - barred.keys()
        if _ladder.find(choice.node, left) is not None:
            return True
        # Keep whole the operator that this node is a part of, or else decompose the node further.
        owner = self._opened.owner(choice.place.origin)
        for target in (self._called(choice.place), owner):
            is_kept = operator_name(target) in self._kept
            if not is_kept and _is_whole(target) and _ladder.can_graft(target, left):
                self._keep(target)
                return True
        return self._take_apart(choice)

    def _called(self, place: Place) -> Any:
        """The operator that the model calls, or that the body of an opened operator calls."""
        return self._origins.get(place.source) or self._opened.parts.get(place.origin)

    def unbar(self, choice: Choice) -> None:
        """Undoes `bar`."""
        self._barred.get(choice.place, {}).pop(choice.kind, None)

    def barred(self, place: Place) -> dict[str, str]:
        return self._barred.get(place, {})

    def origin(self, node: torch.fx.Node, place: Place) -> str:
        """The name of the operator of the model that a node is a part of."""
        owner = self._opened.owner(place.origin)
        return operator_name(owner or self._origins.get(place.source, node.target))

    def why(self, place: Place) -> str:
        """Why a node is not on a better rung."""
        reasons = [
            f"{'torch' if kind == STANDARD else kind}: {why}"
            for kind, why in self.barred(place).items()
        ]
        if place.target in self._opened.reasons:
            reasons.append(f"its body cannot replace it: {self._opened.reasons[place.target]}")
        return "; ".join(reasons)

    def graft(self, node: torch.fx.Node, place: Place) -> Graft | None:
        return _ladder.find(node, self._kinds - self.barred(place).keys())

    def better(self, node: torch.fx.Node, place: Place) -> Graft | None:
        """One of our functions that takes precedence over torch's translation."""
        kinds = self._kinds.intersection({"function"}) - self.barred(place).keys()
        opset = self._registry.opset_version
        if not _functions.replaces_torchs(node, opset) or self.is_users(node):
            return None
        return _ladder.find(node, kinds)

    def translation(self, node: torch.fx.Node, place: Place) -> _private.Translate | None:
        if STANDARD in self.barred(place):
            return None
        return _private.find_translation(node, self._registry)

    def is_users(self, node: torch.fx.Node) -> bool:
        return _private.find_added(node, self._registry) is not None

    def missing(self, node: torch.fx.Node, place: Place) -> UnavailableError:
        because = self.why(place)
        allowed = ", ".join(kind for kind in _ladder.KINDS if kind in self._kinds) or "none"
        return UnavailableError(
            f"operator {operator_name(node.target)} (node '{node.name}'{_where(node)}) has no "
            f"translation to ONNX{f': {because}' if because else ''}, and no allowed fallback "
            f"({allowed}) supports it. Fix: give a translation, "
            f"custom_translation_table={{{_in_code(node.target)}: function}}"
            + ("" if self._kinds.issuperset(_ladder.KINDS) else ', or allow more: fallback="auto"')
        )

    def _decompose(self) -> torch.export.ExportedProgram:
        """Decomposes the captured program, and again until every operator that has no translation
        is kept whole, if a rung can take it."""
        if self._decomposed is not None:
            return self._decomposed
        for _ in range(_MOST_ROUNDS):
            try:
                program = self._decompose_but(self._kept)
            except _private.Moved:
                raise
            except Exception as error:
                self._keep_undecomposable(error)
                continue
            wanted = [
                target
                for node, place in _graph.places(program).items()
                if (target := self._worth_keeping(node, place)) is not None
            ]
            if not wanted:
                self._decomposed = program
                return program
            for target in wanted:
                self._keep(target)
        self._decomposed = self._decompose_but(self._kept)
        return self._decomposed

    def _decompose_but(self, kept: Mapping[str, Any]) -> torch.export.ExportedProgram:
        registry = _private.copy_registry(self._registry)
        for target in kept.values():
            _private.keep_whole(registry, target)
        with _private.fresh_dispatch(), fakes():
            program: torch.export.ExportedProgram = _private.decompose(
                self._captured, registry, self._opened.bodies(kept)
            )
        _views.read_owners(program)
        return program

    def _keep_undecomposable(self, error: Exception) -> None:
        """Keeps whole only the operators that torch cannot decompose."""
        guilty = self._suspects()
        if not guilty or self._cannot_decompose({**self._kept, **guilty}):
            raise UnavailableError(
                f"torch cannot decompose the captured program: {_innermost(error)}. Fix: replace "
                "what fails by other operators, or export a trace: dynamo=False"
            ) from error
        self._keep_fewest(guilty, self._cannot_decompose)

    def keep_misdecomposed(self, is_right: Callable[[torch.export.ExportedProgram], bool]) -> bool:
        """Keeps whole only the operators that torch decomposes wrongly; False if that does not
        help."""

        def is_wrong(kept: Mapping[str, Any]) -> bool:
            return not is_right(self._decompose_but(kept))

        suspects = self._suspects()
        if not suspects or is_wrong({**self._kept, **suspects}):
            return False
        before = set(self._kept)
        self._keep_fewest(suspects, is_wrong)
        for name in self._kept.keys() - before:
            self.notes.append(f"{name} was kept whole, since torch decomposes it wrongly")
        return True

    def decomposition(self, target: Any) -> Callable[..., Any] | None:
        """torch's decomposition of an operator; None if the operator is kept whole."""
        if not isinstance(target, _private.OpOverload) or operator_name(target) in self._kept:
            return None
        if self._registry.functions.get(_private.registered_name(target)):
            return None
        found: Callable[..., Any] | None = _private.decomposition_of(target)
        return found

    def keep_whole(self, target: Any, because: str) -> bool:
        """Keeps an operator whole from now on; False if no rung can take it."""
        if not _is_whole(target) or not _ladder.can_graft(target, self._kinds):
            return False
        self._keep(target)
        name = operator_name(target)
        self.notes.append(f"{name} was kept whole: decomposed by torch, {because}")
        return True

    def _suspects(self) -> dict[str, Any]:
        """The operators of the model that are decomposed but need not be."""
        return {
            operator_name(node.target): node.target
            for _, node in _graph.calls(self._captured)
            if _is_whole(node.target)
            and operator_name(node.target) not in self._kept
            and _private.find_translation(node, self._registry) is None
            and _ladder.can_graft(node.target, self._kinds)
        }

    def _keep_fewest(
        self, guilty: dict[str, Any], is_wrong: Callable[[Mapping[str, Any]], bool]
    ) -> None:
        for name in list(guilty):
            others = {one: target for one, target in guilty.items() if one != name}
            if not is_wrong({**self._kept, **others}):
                guilty = others
        for target in guilty.values():
            self._keep(target)

    def _cannot_decompose(self, kept: Mapping[str, Any]) -> bool:
        try:
            self._decompose_but(kept)
        except Exception:
            return True
        return False

    def _take_apart(self, choice: Choice) -> bool:
        """Drops the translation of an operator, so that torch decomposes it further; False if torch
        cannot."""
        target = choice.node.target
        name = operator_name(target)
        if name in self._kept or not _private.can_decompose(target):
            return False
        self._registry.functions.pop(_private.registered_name(target), None)
        self.notes.append(f"{name} was decomposed further, since {self.why(choice.place)}")
        self._decomposed = None
        return True

    def _keep(self, target: Any) -> None:
        self._kept[operator_name(target)] = target
        self._decomposed = None

    def _worth_keeping(self, node: torch.fx.Node, place: Place) -> Any:
        """The operator to keep whole, since this part of it has no translation; None if there is
        none."""
        if not _is_call(node) or self.translation(node, place) is not None:
            return None
        if self._is_portable_part(node, place):
            return None
        for target in self._wholes(node, place):
            if operator_name(target) == operator_name(node.target):
                return None  # it is whole already
            if operator_name(target) not in self._kept:
                return target
        return None

    def _is_portable_part(self, node: torch.fx.Node, place: Place) -> bool:
        """Whether a function takes the node, and nothing better than libtorch the whole."""
        graft = self.graft(node, place)
        if graft is None or graft.kind != "function":
            return False
        better = self._kinds & {"operator", "function", "pack"}
        return not any(
            _ladder.can_graft(target, better)
            for target in self._wholes(node, place)
            if operator_name(target) != operator_name(node.target)
        )

    def _wholes(self, node: torch.fx.Node, place: Place) -> Iterator[Any]:
        """The operators that the node could be a part of, starting with the one that the model
        calls."""
        own = node.target
        of_torch = operator_name(own).startswith("prims::")
        candidates = [self._called(place), _private.original(node)]
        candidates.insert(2 if of_torch else 1, own)
        candidates.append(self._opened.owner(place.origin))
        for target in candidates:
            if _is_whole(target) and _ladder.can_graft(target, self._kinds):
                yield target


class _Attempt:
    """One translation of a program."""

    def __init__(self, dispatcher: Dispatcher, program: torch.export.ExportedProgram) -> None:
        self._dispatcher = dispatcher
        self._places = _graph.places(program)
        self.choices: dict[torch.fx.Node, Choice] = {}
        self._now: torch.fx.Node | None = None

    def choose(self, node: torch.fx.Node) -> _private.Translate:
        self._now = node
        place = self._places[node]
        because = self._dispatcher.why(place)
        origin = self._dispatcher.origin(node, place)
        better = self._dispatcher.better(node, place)
        translation = None if better else self._dispatcher.translation(node, place)
        if translation is not None:
            kind = USER if self._dispatcher.is_users(node) else STANDARD
            return self._chosen(Choice(node, place, kind, None, origin, because), translation)
        graft = better or self._dispatcher.graft(node, place)
        if graft is None:
            self.choices.pop(node, None)
            raise self._dispatcher.missing(node, place)
        return self._chosen(Choice(node, place, graft.kind, graft, origin, because), graft.build)

    def _chosen(self, choice: Choice, translation: _private.Translate) -> _private.Translate:
        self.choices[choice.node] = choice
        tell("export", "%s (%s) becomes: %s", choice.node.target, choice.node.name, choice.kind)
        return choice.recording(translation)

    def may_retry(self, error: Exception) -> bool:
        """Bars the choice that raised; False if that does not help."""
        choice = self.choices.get(self._now) if self._now is not None else None
        if choice is None or isinstance(_ours(error), (_private.Moved, _functions.Refusal)):
            return False
        return self._dispatcher.bar(choice, f"its translation raised {_innermost(error)}")

    def raise_for_user(self, error: Exception) -> None:
        """Raises an error if a translation of the user's is the cause."""
        choice = self.choices.get(self._now) if self._now is not None else None
        if choice is None or choice.kind != USER or isinstance(_ours(error), _private.Moved):
            return
        written = _user_code.written(choice.translation)
        if not written:
            return
        cause = error if choice.raised is None else choice.raised
        did = "returned a value that torch cannot use" if choice.raised is None else "raised"
        at = _user_code.line_raised(choice.translation, cause)
        raise UnavailableError(
            f"your translation of {operator_name(choice.node.target)}, {written}, {did}{at} for "
            f"node '{choice.node.name}'{_where(choice.node)}: {_innermost(cause)}. Fix: "
            "change that function, or remove it from custom_translation_table (or unregister it)"
        ) from cause

    def failure(self, error: Exception) -> Error:
        where = "" if self._now is None else f" at {self._now.format_node()}"
        return UnavailableError(f"the translation to ONNX raised{where}: {_innermost(error)}")


def _ours(error: BaseException | None) -> Error | None:
    """Our own error among the causes of an error; None if there is none."""
    while error is not None and not isinstance(error, Error):
        error = error.__cause__
    return error


def _is_call(node: torch.fx.Node) -> bool:
    """Whether a node needs a translation; those that unpack lists do not."""
    return not _private.is_builtin(node.target)


def _is_whole(target: Any) -> bool:
    """Whether an operator can be one node: it writes to none of its arguments, and returns tensors
    or one list of tensors."""
    if not isinstance(target, _private.OpOverload) or _private.is_mutable(target):
        return False
    returns = _private.schema_of(target)[1]
    return returns == ["List[Tensor]"] or (bool(returns) and set(returns) == {"Tensor"})


def _in_code(target: Any) -> str:
    """A target as Python code: "torch.ops.aten.relu.default", "torch.sym_sqrt"."""
    if isinstance(target, _private.OpOverload):
        return f"torch.ops.{target}"
    module = str(getattr(target, "__module__", "") or "")
    name = str(getattr(target, "__qualname__", target))
    return name if module in ("", "builtins") else f"{module.removeprefix('_')}.{name}"


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _where(node: torch.fx.Node) -> str:
    """The line of the model, if the capture recorded it."""
    lines = [line.strip() for line in str(node.meta.get("stack_trace") or "").splitlines()]
    found = [line for line in lines if line.startswith("File ")]
    return f", {found[-1]}" if found else ""
