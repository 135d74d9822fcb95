"""What an export gives: the ONNX model, which can be saved and called, and the report."""

from __future__ import annotations

from typing import Any

import torch.onnx

import opgraft


class Program(torch.onnx.ONNXProgram):
    """An exported model. All that `torch.onnx.ONNXProgram` has, and a report."""

    allow: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    def initialize_inference_session(self, initializer: Any = None) -> None:
        """Makes the session that a call runs; an Opgraft session, if not told otherwise."""
        super().initialize_inference_session(initializer or self._open)

    def _open(self, model: str | bytes) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # what is wrong, we raise
        return opgraft.InferenceSession(model, options, allow=self.allow, imports=self.imports)
