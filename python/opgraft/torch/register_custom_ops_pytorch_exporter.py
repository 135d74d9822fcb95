"""opgraft.torch.symbolics, by the name of the module that ONNX Runtime's document speaks of."""

from __future__ import annotations

from opgraft.torch.symbolics import register_custom_op, unregister_custom_op

__all__ = ["register_custom_op", "unregister_custom_op"]
