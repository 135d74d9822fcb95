"""What an export gives: the ONNX model, which can be saved and called, and the report."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import torch
import torch.onnx

import opgraft
from opgraft._torch_arrays import from_array, to_array
from opgraft.torch import _private
from opgraft.torch._examples import input_values
from opgraft.torch._report import Report

#: Among a model's metadata: what it gives otherwise than its source does, a line for each.
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
        self.report = report
        self._session: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """Runs the model in ONNX Runtime, with the arguments that it takes in torch. Complex
        results have a last dimension of 2, real and imaginary part."""
        assert self.exported_program is not None
        leaves = _private.flat_arguments(self.exported_program, args, kwargs)
        if leaves is None:
            raise self._misbuilt(self.exported_program.call_spec.in_spec)
        return self._run(input_values(self.exported_program, leaves))

    def _misbuilt(self, structure: Any) -> TypeError:
        inputs = ", ".join(str(one.name) for one in self.model.graph.inputs)
        return TypeError(
            "the arguments are not built as those that the model was exported with: expected "
            f"{_private.arguments_text(structure)}, for the inputs {inputs}"
        )

    def _run(self, values: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        for value in values:
            if not isinstance(value, (torch.Tensor, bool, int, float)):
                raise TypeError(
                    f"expected tensors of torch, not {type(value).__name__}; torch.as_tensor makes "
                    "one"
                )
        names = [str(one.name) for one in self.model.graph.inputs]
        feed = dict(zip(names, map(to_array, values), strict=True))
        if self._session is None:
            self.initialize_inference_session()
        return tuple(from_array(np.asarray(one)) for one in self._session.run(None, feed))

    def initialize_inference_session(self, initializer: Any = None) -> None:
        """Makes the session that calls run in; `initializer` makes another than Opgraft's."""
        super().initialize_inference_session(initializer or self.open_session)
        self._session = self._inference_session

    def open_session(self, model: str | bytes, *, threads: int = 0) -> Any:
        """A session for the model, or for a part of it, with all that it may run allowed; with as
        many threads as the runtime likes, unless they are given."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # errors are raised, which is enough
        providers = self.report.providers or None
        return opgraft.InferenceSession(model, options, providers, allow=self.report.allow)

    def tell_differences(self, lines: Sequence[str]) -> None:
        """Writes what the program gives otherwise than the model into the file too."""
        known = self.model.metadata_props.get(DIFFERS, "").splitlines()
        if lines:
            self.model.metadata_props[DIFFERS] = "\n".join([*known, *lines])

    def release(self) -> None:
        self._session = None
        super().release()


def tell_excuses(program: Program, lines: Sequence[str]) -> None:
    """Warns of results of examples that say nothing, and writes them into the file."""
    program.tell_differences(lines)
    for one in lines:
        warnings.warn(f"the exported program is verified, but {one}", stacklevel=8)


class TracedProgram(Program):
    """One that comes from a trace: there is no `exported_program`."""

    def __init__(self, model: Any, report: Report, leaves: Sequence[Any], structure: Any) -> None:
        """`leaves` are the arguments that the model was traced with, one after the other."""
        super().__init__(model, None, report)
        # No tensor of the user's is kept.
        self._fixed = [None if isinstance(one, torch.Tensor) else (one,) for one in leaves]
        self._structure = structure

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        leaves = _private.leaves_like(self._structure, args, kwargs)
        if leaves is None:
            raise self._misbuilt(self._structure)
        for leaf, fixed in zip(leaves, self._fixed, strict=True):
            if fixed is not None and (isinstance(leaf, torch.Tensor) or leaf != fixed[0]):
                raise TypeError(f"the export has fixed {fixed[0]!r}; it cannot be {leaf!r} now")
        return self._run([one for one, fixed in zip(leaves, self._fixed, strict=True) if not fixed])


Program.__module__ = TracedProgram.__module__ = "opgraft.torch"  # where users find it
