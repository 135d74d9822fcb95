"""The program that dynamo_export returns: torch's, with its methods of torch up to 2.6."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

import opgraft
from opgraft._base._errors import Error, UnavailableError
from opgraft.torch import _private


@dataclass
class ONNXRuntimeOptions:
    """The session options of a program that is called."""

    session_options: Any = None
    execution_providers: Sequence[Any] | None = None
    execution_provider_options: Sequence[dict[Any, Any]] | None = None


class ONNXProgram(torch.onnx.ONNXProgram):
    """An exported model. A call runs it in an Opgraft session."""

    def __init__(self, program: torch.onnx.ONNXProgram, fake_context: Any = None) -> None:
        super().__init__(program.model, program.exported_program)
        self.fake_context = fake_context

    @property
    def model_signature(self) -> torch.export.ExportGraphSignature:
        """Describes the inputs and outputs of the captured program."""
        signature: torch.export.ExportGraphSignature = self._captured().graph_signature
        return signature

    def adapt_torch_inputs_to_onnx(
        self, *model_args: Any, model_with_state_dict: Any = None, **model_kwargs: Any
    ) -> tuple[Any, ...]:
        """Returns the inputs of the ONNX model, in order, for these arguments of the torch model.

        Lists and dictionaries are flattened, None and the numbers that the export has fixed are
        left out, and complex tensors become pairs of real numbers.

        >>> program.adapt_torch_inputs_to_onnx({"a": x}, (y, None))
        (tensor(...), tensor(...))
        """
        program = self._captured()
        specs = [
            spec for spec in self.model_signature.input_specs if spec.kind is InputKind.USER_INPUT
        ]
        given = _private.flat_arguments(program, model_args, model_kwargs)
        if given is None or len(given) != len(specs):
            raise Error(
                "adapt_torch_inputs_to_onnx: the structure of these arguments differs from that of "
                f"the arguments of the export: {program.call_spec.in_spec}"
            )
        inputs = []
        for value, spec in zip(given, specs, strict=True):
            if not isinstance(spec.arg, ConstantArgument):
                inputs.append(_as_real(value))
            elif value is not spec.arg.value and (
                isinstance(value, torch.Tensor) or value != spec.arg.value
            ):
                raise Error(
                    f"adapt_torch_inputs_to_onnx: the export has fixed '{spec.arg.name}' as "
                    f"{spec.arg.value!r}; it cannot be {value!r} now"
                )
        return tuple(inputs)

    def adapt_torch_outputs_to_onnx(
        self, model_outputs: Any, model_with_state_dict: Any = None
    ) -> list[Any]:
        """Returns the outputs of the ONNX model, in order, for these outputs of the torch model."""
        specs = [
            spec
            for spec in self.model_signature.output_specs
            if spec.kind is OutputKind.USER_OUTPUT
        ]
        given = _private.tree_leaves(model_outputs)
        if len(given) != len(specs):
            raise Error(
                f"adapt_torch_outputs_to_onnx: the exported model has {len(specs)} outputs, but "
                f"{len(given)} were given"
            )
        return [
            _as_real(value)
            for value, spec in zip(given, specs, strict=True)
            if not isinstance(spec.arg, ConstantArgument)
        ]

    def save(
        self,
        destination: str | os.PathLike[str] | IO[bytes],
        *,
        model_state: Any = None,
        **options: Any,
    ) -> None:
        """Saves the model to a path or to an open binary file.

        `model_state` are the weights to save, or the path of a file for torch.load. The other
        options are those of torch.onnx.ONNXProgram.save.
        """
        if model_state is not None:
            if not options.get("include_initializers", True):
                raise Error("save: include_initializers=False leaves out the model_state")
            if not isinstance(model_state, Mapping):
                model_state = torch.load(model_state, weights_only=True)
            self.apply_weights(model_state)
        if isinstance(destination, (str, os.PathLike)):
            super().save(destination, **options)
            return
        if options.get("external_data"):
            raise Error("save: external_data needs a path as destination, not an open file")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            super().save(path, **options)
            if len(list(path.parent.iterdir())) > 1:
                raise Error("save: the weights are too large for one file. Fix: pass a path")
            destination.write(path.read_bytes())

    def initialize_inference_session(self, initializer: Any = None) -> None:
        """Makes the session for calls; `initializer` makes a session from a path or from bytes."""
        super().initialize_inference_session(initializer or opgraft.InferenceSession)

    def __call__(
        self,
        *args: Any,
        model_with_state_dict: torch.nn.Module | None = None,
        options: ONNXRuntimeOptions | None = None,
        **kwargs: Any,
    ) -> Any:
        """Runs the model with arguments of the torch model; returns a tuple of tensors."""
        if isinstance(model_with_state_dict, torch.nn.Module):
            self.apply_weights(model_with_state_dict.state_dict())
            self.release()
        if options is not None:
            self.release()
            self.initialize_inference_session(
                lambda model: opgraft.InferenceSession(
                    model,
                    options.session_options,
                    providers=options.execution_providers,
                    provider_options=options.execution_provider_options,
                )
            )
        return super().__call__(*self.adapt_torch_inputs_to_onnx(*args, **kwargs))

    @property
    def diagnostic_context(self) -> Any:
        raise _no_diagnostics("diagnostic_context")

    def save_diagnostics(self, destination: str) -> None:
        raise _no_diagnostics("save_diagnostics")

    def _captured(self) -> torch.export.ExportedProgram:
        if self.exported_program is None:
            raise Error("this program no longer has its torch.export.ExportedProgram")
        return self.exported_program


def _no_diagnostics(name: str) -> Error:
    return UnavailableError(
        f"{name}: torch {torch.__version__} no longer writes SARIF logs. Fix: use "
        "torch.onnx.export with report=True, which writes a report of the export"
    )


def _as_real(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_complex():
        return torch.view_as_real(value.resolve_conj())
    return value


ONNXProgram.__module__ = ONNXRuntimeOptions.__module__ = "opgraft.torch"  # where users find them
