"""One operator, in Python for torch, in a registry for the exporter, in C++ for ONNX Runtime.

opgraft build examples/custom_op_library/custom_op_library.cc
python examples/torch_registry/add_and_round.py libcustom_op_library.so
"""

from __future__ import annotations

import sys

import onnxruntime
import onnxscript
import torch
from onnxscript import opset18

import opgraft.torch

custom = onnxscript.values.Opset("test.customop", 1)


@torch.library.custom_op("torch_registry::add_and_round", mutates_args=())
def add_and_round(x: torch.Tensor) -> torch.Tensor:
    return torch.round(x + x)


@add_and_round.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


# The library adds floats, and rounds them to int32.
@onnxscript.script(custom)
def add_and_round_of_library(x):
    total = custom.CustomOpOne(x, x)
    return opset18.Cast(custom.CustomOpTwo(total), to=1)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return add_and_round(x)


def main(library: str) -> None:
    registry = opgraft.torch.OnnxRegistry()
    registry.register_op(add_and_round_of_library, "torch_registry", "add_and_round")

    model, x = Model().eval(), torch.randn(5) * 10
    options = opgraft.torch.ExportOptions(onnx_registry=registry, dynamic_shapes=True)
    program = opgraft.torch.dynamo_export(model, x, export_options=options)
    program.save("add_and_round.onnx")
    print([f"{node.domain}::{node.op_type}" for node in program.model_proto.graph.node])

    session_options = onnxruntime.SessionOptions()
    session_options.register_custom_ops_library(library)
    session = onnxruntime.InferenceSession(
        "add_and_round.onnx", session_options, providers=["CPUExecutionProvider"]
    )
    (name,) = [value.name for value in session.get_inputs()]
    for other in (x, torch.randn(9) * 10):  # the size is dynamic
        (given,) = program.adapt_torch_inputs_to_onnx(other)
        (expected,) = program.adapt_torch_outputs_to_onnx(model(other))
        (output,) = session.run(None, {name: given.numpy()})
        torch.testing.assert_close(torch.from_numpy(output), expected)


if __name__ == "__main__":
    main(sys.argv[1])
