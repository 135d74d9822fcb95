"""The result of an export: the ONNX model, which can be saved and called, and the report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import torch
import torch.onnx

import opgraft
from opgraft._run._torch_arrays import from_array, to_array
from opgraft.torch import _private
from opgraft.torch._capture._contents import are_same
from opgraft.torch._capture._examples import fixed_values
from opgraft.torch._capture._guards import HOLDS_WHERE, Guard
from opgraft.torch._graphs._axes import count_from_front
from opgraft.torch._graphs._optimiser import optimised
from opgraft.torch._graphs._warning import warn
from opgraft.torch._program._report import Report

#: The metadata key for the differences between an ONNX model and its source, one per line.
DIFFERS = "opgraft.differs"


class Program(torch.onnx.ONNXProgram):
    """An exported model: all that `torch.onnx.ONNXProgram` has, and a report.

    >>> program = opgraft.torch.export(torch.nn.ReLU(), (torch.ones(2),))
    >>> program(torch.tensor([-1.0, 2.0]))  # runs in ONNX Runtime
    (tensor([0., 2.]),)
    >>> program.save("model.onnx")
    """

    def __init__(
        self, model: Any, exported_program: torch.export.ExportedProgram | None, report: Report
    ) -> None:
        super().__init__(model, exported_program)
        count_from_front(model)
        self.report = report
        report.belong_to(self)
        self._session: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """Runs the model in ONNX Runtime, with the same arguments as in torch. Complex results have
        a last dimension of 2, for the real and the imaginary part."""
        assert self.exported_program is not None
        leaves = _private.flat_arguments(self.exported_program, args, kwargs)
        if leaves is None:
            raise self._misbuilt(self.exported_program.call_spec.in_spec)
        return self._run(_inputs_of(leaves, fixed_values(self.exported_program)))

    def _misbuilt(self, structure: Any) -> TypeError:
        inputs = ", ".join(str(one.name) for one in self.model.graph.inputs)
        return TypeError(
            "the arguments do not have the structure of those at the export: expected "
            f"{_private.arguments_text(structure)}, for the inputs {inputs}"
        )

    def _run(self, values: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        for value in values:
            if not isinstance(value, (torch.Tensor, bool, int, float)):
                raise TypeError(
                    f"expected torch tensors, not {type(value).__name__}. Fix: convert it with "
                    "torch.as_tensor"
                )
        names = [str(one.name) for one in self.model.graph.inputs]
        feed = dict(zip(names, map(to_array, values), strict=True))
        if self._session is None:
            self.initialize_inference_session()
        return tuple(from_array(np.asarray(one)) for one in self._session.run(None, feed))

    def initialize_inference_session(self, initializer: Any = None) -> None:
        """Creates the session that calls run in; `initializer` replaces Opgraft's own."""
        super().initialize_inference_session(initializer or self.open_session)
        self._session = self._inference_session

    def open_session(self, model: str | bytes, *, threads: int = 0) -> Any:
        """Opens a session for the model, or for a part of it, and allows everything that the report
        lists. With `threads` 0, the runtime chooses the number of threads."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # errors are raised, so they need not be logged
        providers = self.report.providers or None
        return opgraft.InferenceSession(model, options, providers, allow=self.report.allow)

    def save(self, destination: Any, **options: Any) -> None:
        """Writes the model, as torch's does."""
        super().save(destination, **options)
        if isinstance(destination, (str, os.PathLike)):
            self.report.was_saved(os.fspath(destination))

    def optimize(self) -> None:
        """Like torch's, but does not change results. If it would, the model stays unchanged and the
        report says why."""
        self.model, problem = optimised(self.model)
        count_from_front(self.model)  # the optimiser has computed axes
        if problem:
            self.report.notes.append(f"not optimised: {problem}")

    def tell_differences(self, lines: Sequence[str]) -> None:
        """Writes how the program differs from the model into the file's metadata."""
        known = self.model.metadata_props.get(DIFFERS, "").splitlines()
        if lines:
            self.model.metadata_props[DIFFERS] = "\n".join([*known, *lines])

    def tell_holding(self, guards: Sequence[Guard]) -> None:
        """Writes what the program holds for into the report and into the file's metadata."""
        self.report.specialised += map(str, guards)
        known = self.model.metadata_props.get(HOLDS_WHERE, "").splitlines()
        if guards:
            lines = [*known, *(one.short for one in guards)]
            self.model.metadata_props[HOLDS_WHERE] = "\n".join(lines)

    def release(self) -> None:
        self._session = None
        super().release()


def tell_excuses(program: Program, lines: Sequence[str]) -> None:
    """Warns of results that could not be compared, and writes them into the file's metadata."""
    program.tell_differences(lines)
    for one in lines:
        warn(f"the exported program is verified, but {one}")


def tell_unverified(program: Program, notes: Sequence[str]) -> None:
    """Warns if nothing could be verified although it was requested; `notes` say why."""
    if not program.report.verified:
        warn(
            f"nothing is verified in the exported program: {'; '.join(notes)}. Fix: give arguments "
            "for which the model returns numbers that are not random"
        )


class TracedProgram(Program):
    """A program made by tracing: it has no `exported_program`."""

    def __init__(
        self, model: Any, report: Report, fixed: Sequence[tuple[str, Any] | None], structure: Any
    ) -> None:
        """`fixed` has, for each argument, its name and value if it is a constant of the ONNX model;
        None if it is an input."""
        super().__init__(model, None, report)
        self._fixed = fixed
        self._structure = structure

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        leaves = _private.leaves_like(self._structure, args, kwargs)
        if leaves is None:
            raise self._misbuilt(self._structure)
        return self._run(_inputs_of(leaves, self._fixed))


def _inputs_of(leaves: Sequence[Any], fixed: Sequence[tuple[str, Any] | None]) -> list[Any]:
    """Returns the arguments that are inputs. Raises a TypeError if an argument that is a constant
    of the ONNX model now has another value."""
    found = []
    for leaf, constant in zip(leaves, fixed, strict=True):
        if constant is None:
            found.append(leaf)
            continue
        name, value = constant
        if isinstance(leaf, torch.Tensor) or not are_same(leaf, value):
            given = "a tensor" if isinstance(leaf, torch.Tensor) else repr(leaf)
            raise TypeError(
                f"the export has fixed '{name}' as {value!r}; it cannot be {given} now. Fix: "
                "export the model with that value, or make the argument a tensor"
            )
    return found


def fixed_notes(fixed: Sequence[tuple[str, Any] | None]) -> list[str]:
    """Describes the arguments that are constants of the ONNX model, except those that are None."""
    return [
        f"argument '{one[0]}' is always {one[1]!r}, as at the export"
        for one in fixed
        if one is not None and one[1] is not None
    ]


Program.__module__ = TracedProgram.__module__ = "opgraft.torch"  # where users find it
