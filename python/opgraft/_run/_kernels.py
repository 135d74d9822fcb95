"""Finds out what the installed ONNX Runtime has kernels for, with sessions of one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnxruntime


class Kernels:
    """What the core asks, when the runtime has refused a model, about each kind of node."""

    def __init__(
        self,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
    ) -> None:
        self._providers = ["CPUExecutionProvider"] if providers is None else providers
        self._provider_options = provider_options
        self._options = onnxruntime.SessionOptions()
        self._options.log_severity_level = 4  # a refusal is an answer, not an error
        self._options.intra_op_num_threads = 1
        self._options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        #: Under the same conditions, answers are the same.
        self.conditions = f"{onnxruntime.__version__} {self._providers} {provider_options}"

    def loads(self, model: bytes) -> bool:
        """Returns whether the runtime makes a session of the model. Nothing is run."""
        try:
            onnxruntime.InferenceSession(
                model, self._options, self._providers, self._provider_options, enable_fallback=0
            )
        except Exception:  # whatever it is, the runtime does not take the node
            return False
        return True
