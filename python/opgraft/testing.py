"""Tests an operator in real ONNX Runtime: runs one case in every relevant way.

>>> from opgraft.testing import OpTester
>>> test = OpTester("Add", 14)
>>> test = test.add_input("a", np.float32([1, 2])).add_input("b", np.float32([[10], [20]]))
>>> test.add_output("c", np.float32([[11, 12], [21, 22]])).run()

The operator may be declared in Python, come from a pack, or be ONNX Runtime's own. Operators that
should give the same results, such as a Python operator and its C++ version, can share their cases.
`opgraft/testing.h` has the same methods for C++.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any
from unittest import SkipTest

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from opgraft._base._errors import Error, UnavailableError
from opgraft._base._needed import find_dtype
from opgraft._declare._packs import load, load_preferred
from opgraft._declare._signature import ELEMENT_TYPES

try:
    from opgraft._testing import _case, _findings
    from opgraft._testing._case import Case, Value
    from opgraft._testing._devices import CUDA, devices_of, why_no_gpu
except ImportError as _error:  # pragma: no cover
    raise UnavailableError(
        f"opgraft.testing makes its models with the package onnx ({_error}). Fix: pip install onnx"
    ) from _error

__all__ = ["OpTester"]


class OpTester:
    """One case of an operator, or of several operators that should give the same results.

    `operator` is "domain::Name", or a name with `domain` given separately, or a list of such names,
    which are all run with the same case. `version` is the version of the domain. `library` is a
    custom operator library, which is registered the usual way; without it, the operators are those
    declared or loaded in this process, and those of the packs in the variable OPGRAFT_TEST_PACKS.
    `allow`, `imports` and `prefer` are as in `opgraft.InferenceSession`.

    An operator that has a kernel for CUDA is also run on the GPU, if there is one. If there is
    none, a warning says so, and a case that only a GPU could run is skipped. With `cuda=False` it
    is not run on the GPU; with `cuda=True` there must be a GPU and a kernel for it.

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
            raise Error("expected the name of the operator to test")
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
        """Adds the next input. A constant input is an initializer in every way of running."""
        return self._add(self._inputs, name, _array(value, dtype), constant)

    def add_output(self, name: str, value: ArrayLike, dtype: DTypeLike | None = None) -> OpTester:
        """Adds the next output, with its expected value."""
        return self._add(self._outputs, name, _array(value, dtype))

    def add_omitted_input(self) -> OpTester:
        """Adds an optional input that is absent."""
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
        """Adds an input without elements, for `infer_shapes`.

        A size is a number, a symbol such as "n", or None. The shape None means unknown rank.
        """
        return self._add_shape(self._inputs, name, dtype, shape)

    def add_output_shape(
        self, name: str, dtype: DTypeLike, shape: Sequence[int | str | None] | None
    ) -> OpTester:
        """Adds an output with the shape that `infer_shapes` expects."""
        return self._add_shape(self._outputs, name, dtype, shape)

    def set_tolerance(
        self, absolute: float, relative: float = 0, *, output: str | None = None
    ) -> OpTester:
        """Replaces the default tolerance of one output, or of all outputs added so far."""
        meant = [one for one in self._outputs if one.name and output in (None, one.name)]
        if not meant:
            raise Error(
                f"a tolerance is set for {output or 'outputs'}, but no such output has been added"
            )
        for one in meant:
            one.tolerance = (absolute, relative)
        return self

    def run(self) -> None:
        """Runs the case in every way; each must give the expected outputs."""
        __tracebackhide__ = True
        self._check_case()
        cases = self._runnable()
        _report([text for case in cases for text in _findings.check(case)])

    def expect_failure(self, text: str = "") -> None:
        """Runs the case in every way; each must fail with an error that contains `text`."""
        __tracebackhide__ = True
        self._check_case()
        cases = self._runnable()
        _report([one for case in cases for one in _findings.check_failure(case, text)])

    def infer_shapes(self, *, failure: str | None = None) -> None:
        """Tests only the shape rule, which must give exactly the shapes of the outputs.

        With `failure`, it must fail with an error that contains this text.

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
        tested = {name for pack in _case.packs_of_environment() for name in load(pack).operators}
        for domain, name in self._operators:
            case = Case(domain, name, self._version, self._inputs, self._outputs, self._attributes)
            case.library = None if self._library is None else str(self._library)
            case.session_arguments = dict(self._session_arguments)
            if case.full_name in tested:  # even if the runtime has the operator too
                case.session_arguments["prefer"] = (
                    *self._session_arguments["prefer"],
                    case.full_name,
                )
            case.devices = self._devices(case)
            yield case

    def _devices(self, case: Case) -> set[str]:
        """Returns the devices to run the case on, of those that are here."""
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
        """Returns the cases that can run here; skips the test if there are none. To be called
        directly by a public method, so that warnings name the user's line."""
        cases = [case for case in self._cases() if case.devices]
        if not cases:
            names = ", ".join("::".join(filter(None, one)) for one in self._operators)
            reason = "cuda=False" if self._cuda is False else why_no_gpu()
            raise SkipTest(f"{names}: it runs only on a GPU, which is not available: {reason}")
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
                raise Error(f"'{one.name}' has no elements, which only infer_shapes allows")
        if not any(one.name for one in self._outputs):
            raise Error("no output was added; a case that should fail needs outputs too")

    def _add(
        self, values: list[Value], name: str, array: np.ndarray, constant: bool = False
    ) -> OpTester:
        self._check_name(name)
        values.append(Value(name, _case.element_type(array.dtype), array.shape, array, constant))
        return self

    def _add_shape(
        self, values: list[Value], name: str, dtype: DTypeLike, shape: Sequence[Any] | None
    ) -> OpTester:
        self._check_name(name)
        number = _case.element_type(_array([], dtype).dtype)
        values.append(Value(name, number, None if shape is None else tuple(shape)))
        return self

    def _check_name(self, name: str) -> None:
        if not name:
            raise Error("an input or output needs a name; add_omitted_input() adds an absent one")
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
