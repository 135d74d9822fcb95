"""Tests an operator in real ONNX Runtime: one case, run in every way that matters.

>>> from opgraft.testing import OpTester
>>> test = OpTester("Add", 14)
>>> test = test.add_input("a", np.float32([1, 2])).add_input("b", np.float32([[10], [20]]))
>>> test.add_output("c", np.float32([[11, 12], [21, 22]])).run()

The operator may be declared in Python, come from a pack, or be ONNX Runtime's own; several that are
to do the same, such as a Python operator and its twin in C++, share their cases. The same verbs are
in C++: `opgraft/testing.h`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

import opgraft
from opgraft._comparison import Shape, compare, contains, evaluate, meaning, shape_text, type_name
from opgraft._errors import Error, UnavailableError
from opgraft._signature import ELEMENT_TYPES
from opgraft._tensors import find_dtype

try:
    from opgraft import _trial
    from opgraft._trial import FIXED, SYMBOLIC, UNKNOWN, Case, Session, Value, Way
except ImportError as _error:  # pragma: no cover
    raise UnavailableError(
        f"opgraft.testing writes its models by the package onnx ({_error}). To mend it: "
        "pip install onnx"
    ) from _error

__all__ = ["OpTester"]


class OpTester:
    """One case of one operator, or of several that are to do the same.

    `operator` is "domain::Name", or a name beside which `domain` is given, or a list of such names:
    each is run with the same case. `version` is that of the domain. `library` is a custom operator
    library to be registered as any program does; without it, the operators are those that this
    process knows, and those of the packs in the variable OPGRAFT_TEST_PACKS. `allow` and `imports`
    are as in `opgraft.InferenceSession`.

    >>> OpTester(["my.python::Median", "my.domain::Median"])  # doctest: +SKIP
    """

    def __init__(
        self,
        operator: str | Sequence[str],
        version: int = 1,
        domain: str = "",
        *,
        library: str | None = None,
        allow: Iterable[str] = (),
        imports: Iterable[str] = (),
    ) -> None:
        names = [operator] if isinstance(operator, str) else list(operator)
        if not names:
            raise Error("name the operator that is to be tested")
        self._operators = [_split(name, domain) for name in names]
        self._version = version
        self._library = library
        self._allow, self._imports = tuple(allow), tuple(imports)
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._attributes: dict[str, Any] = {}

    def add_input(
        self, name: str, value: ArrayLike, dtype: DTypeLike = None, *, constant: bool = False
    ) -> OpTester:
        """The next input. A constant one is an initializer in every way of running."""
        return self._add(self._inputs, name, _array(value, dtype), constant)

    def add_output(self, name: str, value: ArrayLike, dtype: DTypeLike = None) -> OpTester:
        """The next output, as it is expected."""
        return self._add(self._outputs, name, _array(value, dtype))

    def add_omitted_input(self) -> OpTester:
        """An optional input that is absent."""
        self._inputs.append(Value())
        return self

    def add_omitted_output(self) -> OpTester:
        self._outputs.append(Value())
        return self

    def add_attribute(self, name: str, value: Any) -> OpTester:
        self._attributes[name] = value
        return self

    def add_input_shape(
        self, name: str, dtype: DTypeLike, shape: Sequence[int | str | None] | None
    ) -> OpTester:
        """What `infer_shapes` is given for an input that needs no elements.

        A size is a number, a symbol such as "n", or None; a shape of None is of unknown rank.
        """
        return self._add_shape(self._inputs, name, dtype, shape)

    def add_output_shape(
        self, name: str, dtype: DTypeLike, shape: Sequence[int | str | None] | None
    ) -> OpTester:
        """What `infer_shapes` expects of an output."""
        return self._add_shape(self._outputs, name, dtype, shape)

    def set_tolerance(
        self, absolute: float, relative: float = 0, *, output: str | None = None
    ) -> OpTester:
        """Instead of what the type of an output has; for one, or for all that were added."""
        meant = [one for one in self._outputs if one.name and output in (None, one.name)]
        if not meant:
            raise Error(f"a tolerance is set for {output or 'outputs'}, but none was added before")
        for one in meant:
            one.tolerance = (absolute, relative)
        return self

    def run(self) -> None:
        """Runs the case in every way, each of which must give the outputs."""
        __tracebackhide__ = True
        self._check_case()
        _report([text for case in self._cases() for text in _check(case)])

    def expect_failure(self, text: str = "") -> None:
        """Runs the case in every way, each of which must fail with an error that has `text`."""
        __tracebackhide__ = True
        self._check_case()
        _report([one for case in self._cases() for one in _check_failure(case, text)])

    def infer_shapes(self, *, failure: str | None = None) -> None:
        """Tests the shape rule alone: it must tell the shapes of the outputs, no less and no more.

        With `failure`, it must fail with an error that has this text.

        >>> test = OpTester("MatMul", 13).add_input_shape("a", np.float32, ["n", 3])
        >>> test = test.add_input_shape("b", np.float32, [3, "m"])
        >>> test.add_output_shape("c", np.float32, ["n", "m"]).infer_shapes()
        """
        __tracebackhide__ = True
        if failure is None:
            _report([text for case in self._cases() for text in _check_shapes(case)])
        else:
            _report([text for case in self._cases() for text in _check_rule_fails(case, failure)])

    def _cases(self) -> Iterable[Case]:
        packs = _trial.packs_of_environment()
        load: Callable[[str], Any] | None = getattr(opgraft, "load", None)
        if load is not None:
            for pack in packs:
                load(pack)
        for domain, name in self._operators:
            case = Case(
                domain,
                name,
                self._version,
                self._inputs,
                self._outputs,
                self._attributes,
                allow=self._allow,
                imports=self._imports,
            )
            if self._library is not None:
                case.libraries = [str(self._library)]
            elif load is None and not _trial.is_declared(case):
                case.libraries = packs
            yield case

    def _check_case(self) -> None:
        for one in (*self._inputs, *self._outputs):
            if one.name and one.array is None:
                raise Error(f"'{one.name}' has no elements: only infer_shapes needs none")
        if not any(one.name for one in self._outputs):
            raise Error("no output was added; a case that is to fail has them too")

    def _add(
        self, values: list[Value], name: str, array: np.ndarray, constant: bool = False
    ) -> OpTester:
        self._check_name(name)
        values.append(Value(name, _trial.element_type(array.dtype), array.shape, array, constant))
        return self

    def _add_shape(
        self, values: list[Value], name: str, dtype: DTypeLike, shape: Sequence[Any] | None
    ) -> OpTester:
        self._check_name(name)
        number = _trial.element_type(_array([], dtype).dtype)
        values.append(Value(name, number, None if shape is None else tuple(shape)))
        return self

    def _check_name(self, name: str) -> None:
        if not name:
            raise Error("an input or output has a name; add_omitted_input() adds one that is absent")
        if any(one.name == name for one in (*self._inputs, *self._outputs)):
            raise Error(f"two inputs or outputs are called '{name}'")


def _split(name: str, domain: str) -> tuple[str, str]:
    before, colons, after = name.rpartition("::")
    domain = before if colons else domain
    return "" if domain == "ai.onnx" else domain, after


def _array(value: ArrayLike, dtype: DTypeLike) -> np.ndarray:
    if isinstance(dtype, str) and dtype in ELEMENT_TYPES and not hasattr(np, dtype):
        dtype = object if dtype == "string" else find_dtype(dtype)
    if dtype is str:
        dtype = object
    array = np.asarray(value, dtype)
    return array.astype(object) if array.dtype.kind in "UST" else array


class _Findings:
    """Problems, each with the ways that have it."""

    def __init__(self, case: Case, ways: int) -> None:
        self._who, self._ways = case.full_name, ways
        self._found: dict[str, list[str]] = {}

    def add(self, way: str, problem: str) -> None:
        self._found.setdefault(problem, []).append(way)

    def texts(self) -> list[str]:
        import onnxruntime

        where = f"\n  in ONNX Runtime {onnxruntime.__version__}, "
        return [
            f"{self._who}: {problem}{where}"
            + (
                f"in all {self._ways} ways of running"
                if len(ways) >= self._ways
                else "in these ways of running alone:" + "".join(f"\n    {way}" for way in ways)
            )
            for problem, ways in self._found.items()
        ]


def _report(problems: list[str]) -> None:
    __tracebackhide__ = True
    if problems:
        raise AssertionError("\n".join(problems))


def _check(case: Case) -> list[str]:
    ways = case.ways()
    findings = _Findings(case, len(ways))
    came: dict[str, Any] | None = None
    for way in ways:
        try:
            came = _run_way(case, way, findings)
        except Exception as error:
            findings.add(way.name, f"it failed: {_text(error)}")
    if came is not None:
        _check_rule(case, came, findings)
    _check_reference(case, findings)
    return findings.texts()


def _check_failure(case: Case, text: str) -> list[str]:
    ways = case.ways()
    findings = _Findings(case, len(ways))
    for way in ways:
        try:
            Session(case, way).run()
            findings.add(way.name, f'expected a failure with "{text}", but it did not fail')
        except Exception as error:
            if text not in _text(error):
                problem = f'expected a failure with "{text}", but the error is: {_text(error)}'
                findings.add(way.name, problem)
    return findings.texts()


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _run_way(case: Case, way: Way, findings: _Findings) -> dict[str, Any]:
    session = Session(case, way)
    first: dict[str, Any] | None = None
    for time in ("", ", run a second time"):
        got, changed = session.run()
        if first is not None and _compare_outputs(case, first, got) == []:
            break
        for name in changed:
            findings.add(way.name + time, f"it changed its input '{name}'")
        for problem in _compare_outputs(case, None, got):
            findings.add(way.name + time, problem)
        for name in case.output_names if way.asks_shapes else []:
            told, real = tuple(got[_trial.shape_name(name)]), np.shape(got[name])
            if told != real:
                findings.add(
                    way.name,
                    f"output '{name}': the operator Shape behind it gives {shape_text(told)}, but "
                    f"{shape_text(real)} came: the runtime inferred it wrongly",
                )
        first = got
    assert first is not None
    for name in case.output_names:
        said = session.inferred(name)
        _check_said(
            way.name, "the runtime inferred", name, said, session.plan.symbols, first, findings
        )
    return first


def _compare_outputs(
    case: Case, expected: dict[str, Any] | None, got: dict[str, Any]
) -> list[str]:
    """Against what was expected, or exactly against what came the last time."""
    problems = []
    for one in case.outputs:
        if one.array is None:
            continue
        if expected is None:
            problem = compare(one.array, got[one.name], one.tolerance)
        else:
            problem = compare(expected[one.name], got[one.name], (0, 0))
        if problem is not None:
            problems.append(f"output '{one.name}'{problem}")
    return problems


def _check_said(
    way: str,
    who: str,
    output: str,
    said: tuple[str, Shape],
    symbols: dict[str, int],
    came: dict[str, Any],
    findings: _Findings,
) -> None:
    """What was said of an output before it came must leave room for what came."""
    said_type, said_shape = said
    array = came[output]
    if said_type and said_type != type_name(array):
        findings.add(
            way, f"output '{output}': {who} {said_type}, but {type_name(array)} came"
        )
    if not contains(said_shape, array.shape, symbols):
        findings.add(
            way,
            f"output '{output}': {who} the shape {shape_text(said_shape)}"
            f"{meaning(said_shape, symbols)}, but {shape_text(array.shape)} came",
        )


def _check_rule(case: Case, came: dict[str, Any], findings: _Findings) -> None:
    if not _trial.is_known_to_onnx(case):
        return
    for dimensions in (FIXED, SYMBOLIC, UNKNOWN):
        way = f"onnx.shape_inference, {dimensions}"
        try:
            said, symbols = _trial.ask_onnx(case, dimensions)
        except Exception as error:
            findings.add(way, f"its shape rule fails: {_text(error)}")
            continue
        for name in case.output_names:
            if name in said:
                _check_said(way, "its shape rule says", name, said[name], symbols, came, findings)


def _check_reference(case: Case, findings: _Findings) -> None:
    """The package onnx computes with NumPy's types alone."""
    if case.libraries or any(one.element_type > 13 for one in (*case.inputs, *case.outputs)):
        return
    try:
        got = _trial.run_reference(case)
    except Exception as error:
        findings.add("onnx.reference", f"it failed: {_text(error)}")
        return
    for problem in [] if got is None else _compare_outputs(case, None, got):
        findings.add("onnx.reference", problem)


def _check_shapes(case: Case) -> list[str]:
    problems = []
    known = {one: 1 for value in case.inputs for one in value.shape or () if isinstance(one, str)}
    has_rule = _trial.is_known_to_onnx(case)
    if has_rule:
        try:
            said, _ = _trial.ask_onnx(case, FIXED)
        except Exception as error:
            return [f"{case.full_name}: its shape rule fails: {_text(error)}"]
        problems += [
            f"{text}\n  from onnx.shape_inference" for text in _differences(case, said, known, False)
        ]
    try:
        session = Session(case, Way("shapes alone"))
    except Exception as error:
        return [*problems, f"{case.full_name}: ONNX Runtime refuses the model: {_text(error)}"]
    inferred = {name: session.inferred(name) for name in case.output_names}
    problems += [
        f"{text}\n  inferred by ONNX Runtime" for text in _differences(case, inferred, known, True)
    ]
    return problems


def _differences(
    case: Case, said: dict[str, tuple[str, Shape]], known: dict[str, int], is_runtime: bool
) -> list[str]:
    """A runtime gives names of its own to what it does not know, and may know less than the rule."""
    may_tell_less = is_runtime and (_trial.is_known_to_onnx(case) or bool(case.libraries))

    def is_open(size: int | str | None) -> bool:
        return size is None or (isinstance(size, str) and evaluate(size, known) is None)

    problems = []
    names = {number: name for name, number in ELEMENT_TYPES.items()}
    for one in case.outputs:
        if not one.name:
            continue
        told_type, told = said.get(one.name, ("", None))
        who = f"{case.full_name}: output '{one.name}': expected"
        if told_type and told_type != names[one.element_type]:
            problems.append(f"{who} {names[one.element_type]}, got {told_type}")
        if told is None and (may_tell_less or one.shape is None):
            continue
        if told is None and is_runtime and one.shape == ():
            continue  # what has no dimensions may be a scalar, or not
        if (
            told is None
            or one.shape is None
            or len(told) != len(one.shape)
            or any(
                a != b and not (is_open(a) and (may_tell_less or is_open(b)))
                for a, b in zip(told, one.shape, strict=True)
            )
        ):
            problems.append(f"{who} the shape {shape_text(one.shape)}, got {shape_text(told)}")
    return problems


def _check_rule_fails(case: Case, text: str) -> list[str]:
    wanted = f'{case.full_name}: expected its shape rule to fail with "{text}", but '
    if not _trial.is_known_to_onnx(case):
        return [wanted + "onnx does not know the operator, so that nobody tells the error"]
    try:
        _trial.ask_onnx(case, FIXED)
    except Exception as error:
        if text in _text(error):
            return []
        return [wanted + f"the error is: {_text(error)}"]
    return [wanted + "it did not fail"]
