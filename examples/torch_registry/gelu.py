"""Exports torch's gelu as com.microsoft::Gelu, for which ONNX Runtime has a kernel, and runs it.

python examples/torch_registry/gelu.py
"""

from __future__ import annotations

import onnxscript
import torch

import opgraft.torch

microsoft = onnxscript.values.Opset("com.microsoft", 1)


# The parameters are those of aten::gelu: tensors without annotations, all others with their types.
@onnxscript.script(microsoft)
def gelu_of_onnx_runtime(x, approximate: str = "none"):
    return microsoft.Gelu(x)


def main() -> None:
    registry = opgraft.torch.OnnxRegistry()
    registry.register_op(gelu_of_onnx_runtime, namespace="aten", op_name="gelu")

    model, x = torch.nn.GELU().eval(), torch.randn(2, 3)
    options = opgraft.torch.ExportOptions(onnx_registry=registry)
    program = opgraft.torch.dynamo_export(model, x, export_options=options)

    print([f"{node.domain}::{node.op_type}" for node in program.model_proto.graph.node])
    torch.testing.assert_close(program(x)[0], model(x))


if __name__ == "__main__":
    main()
