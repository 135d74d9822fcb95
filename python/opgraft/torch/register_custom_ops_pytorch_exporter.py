"""opgraft.torch.symbolics under the module name that ONNX Runtime's document uses."""

from __future__ import annotations

from opgraft.torch.symbolics import register_custom_op, unregister_custom_op

__all__ = ["register_custom_op", "unregister_custom_op"]
