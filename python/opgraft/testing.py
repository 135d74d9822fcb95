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

import warnings
from collections.abc import Iterable, Sequence
from typing import Any
from unittest import SkipTest

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from opgraft._errors import Error, UnavailableError
from opgraft._needed import find_dtype
from opgraft._packs import load, load_preferred
from opgraft._signature import ELEMENT_TYPES

try:
    from opgraft import _findings, _trial
    from opgraft._trial import Case, Value
    from opgraft._trial_devices import CUDA, devices_of, why_no_gpu
except ImportError as _error:  # pragma: no cover
    raise UnavailableError(
        f"opgraft.testing writes its models by the package onnx ({_error}). Fix: pip install onnx"
    ) from _error

__all__ = ["OpTester"]


class OpTester:
    """One case of one operator, or of several that are to do the same.

    `operator` is "domain::Name", or a name beside which `domain` is given, or a list of such names:
    each is run with the same case. `version` is that of the domain. `library` is a custom operator
    library to be registered as any program does; without it, the operators are those that this
    process knows, and those of the packs in the variable OPGRAFT_TEST_PACKS. `allow`, `imports` and
    `prefer` are as in `opgraft.InferenceSession`.

    An operator that has a kernel for CUDA too is run on the GPU as well, where there is one. Where
    there is none, a warning says so, and a case that only a GPU could run is skipped. With
    `cuda=False` it is not run there, with `cuda=True` there must be a GPU and a kernel for it.

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
        prefer: Iterable[str] = (),
        cuda: bool | None = None,
    ) -> None:
        names = [operator] if isinstance(operator, str) else list(operator)
        if not names:
            raise Error("name the operator that is to be tested")
        self._operators = [_split(name, domain) for name in names]
        self._version = version
        self._library = library
        self._cuda = cuda
        self._session_arguments: dict[str, Any] = {
            "allow": tuple(allow),
            "imports": tuple(imports),
            "prefer": tuple(prefer),
        }
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._attributes: dict[str, Any] = {}

    def add_input(
        self, name: str, value: ArrayLike, dtype: DTypeLike | None = None, *, constant: bool = False
    ) -> OpTester:
        """The next input. A constant one is an initializer in every way of running."""
        return self._add(self._inputs, name, _array(value, dtype), constant)

    def add_output(self, name: str, value: ArrayLike, dtype: DTypeLike | None = None) -> OpTester:
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
        cases = self._runnable()
        _report([text for case in cases for text in _findings.check(case)])

    def expect_failure(self, text: str = "") -> None:
        """Runs the case in every way, each of which must fail with an error that has `text`."""
        __tracebackhide__ = True
        self._check_case()
        cases = self._runnable()
        _report([one for case in cases for one in _findings.check_failure(case, text)])

    def infer_shapes(self, *, failure: str | None = None) -> None:
        """Tests the shape rule alone: it must tell the shapes of the outputs, no less and no more.

        With `failure`, it must fail with an error that has this text.

        >>> test = OpTester("MatMul", 13).add_input_shape("a", np.float32, ["n", 3])
        >>> test = test.add_input_shape("b", np.float32, [3, "m"])
        >>> test.add_output_shape("c", np.float32, ["n", "m"]).infer_shapes()
        """
        __tracebackhide__ = True
        if failure is None:
            _report([text for case in self._cases() for text in _findings.check_shapes(case)])
            return
        found = [_findings.check_rule_fails(case, failure) for case in self._cases()]
        _report([text for texts in found for text in texts])

    def _cases(self) -> Iterable[Case]:
        tested = {name for pack in _trial.packs_of_environment() for name in load(pack).operators}
        for domain, name in self._operators:
            case = Case(domain, name, self._version, self._inputs, self._outputs, self._attributes)
            case.library = None if self._library is None else str(self._library)
            case.session_arguments = dict(self._session_arguments)
            if case.full_name in tested:  # though it may be one of the runtime's too
                case.session_arguments["prefer"] = (
                    *self._session_arguments["prefer"],
                    case.full_name,
                )
            case.devices = self._devices(case)
            yield case

    def _devices(self, case: Case) -> set[str]:
        """Those that the case is to be run on here."""
        prefer = case.session_arguments["prefer"]
        if self._library is None:
            load_preferred(prefer)
        types = [one.element_type for one in case.inputs]
        devices = devices_of(
            case.full_name, case.version, types, library=case.library, prefer=prefer
        )
        if self._cuda is False:
            return devices - {CUDA}
        if CUDA not in devices:
            if self._cuda:
                raise Error(f"{case.full_name} has no kernel for CUDA that takes these types")
            return devices
        problem = why_no_gpu()
        if problem and self._cuda:
            raise UnavailableError(f"{case.full_name} cannot be tested on the GPU: {problem}")
        case.untested = problem
        return devices - {CUDA} if problem else devices

    def _runnable(self) -> list[Case]:
        """To be called by what the user calls. Skips where none of the cases can be run here."""
        cases = [case for case in self._cases() if case.devices]
        if not cases:
            names = ", ".join("::".join(filter(None, one)) for one in self._operators)
            reason = "cuda=False" if self._cuda is False else why_no_gpu()
            raise SkipTest(f"{names}: on the GPU alone, which is not to be had: {reason}")
        for case in cases:
            if case.untested:
                warnings.warn(
                    f"{case.full_name} has a kernel for CUDA, which is not tested here: "
                    f"{case.untested}",
                    stacklevel=3,
                )
        return cases

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
            raise Error(
                "an input or output has a name; add_omitted_input() adds one that is absent"
            )
        if any(one.name == name for one in (*self._inputs, *self._outputs)):
            raise Error(f"two inputs or outputs are called '{name}'")


def _split(name: str, domain: str) -> tuple[str, str]:
    before, colons, after = name.rpartition("::")
    domain = before if colons else domain
    return "" if domain == "ai.onnx" else domain, after


def _array(value: ArrayLike, dtype: DTypeLike | None) -> np.ndarray:
    if isinstance(dtype, str) and dtype in ELEMENT_TYPES and not hasattr(np, dtype):
        dtype = object if dtype == "string" else find_dtype(dtype)
    if dtype is str:
        dtype = object
    array = np.asarray(value, dtype)
    return array.astype(object) if array.dtype.kind in "UST" else array


def _report(problems: list[str]) -> None:
    __tracebackhide__ = True
    if problems:
        raise AssertionError("\n".join(problems))
