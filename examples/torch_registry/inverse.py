"""Exports torch.inverse as com.microsoft::Inverse by a symbolic function, with both exporters.

python examples/torch_registry/inverse.py
"""

from __future__ import annotations

import io

import numpy as np
import torch

import opgraft
import opgraft.torch.compat  # torch.onnx.export honours symbolic functions and custom_opsets


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.inverse(x) + x


def inverse(g, x):
    return g.op("com.microsoft::Inverse", x).setType(x.type())


def main() -> None:
    torch.onnx.register_custom_op_symbolic("::inverse", inverse, 1)
    model, x = Model().eval(), torch.randn(3, 3) + 5 * torch.eye(3)
    for dynamo in (True, False):
        for version in (1, 5):
            file = io.BytesIO()
            torch.onnx.export(
                model, (x,), file, dynamo=dynamo, custom_opsets={"com.microsoft": version}
            )
            session = opgraft.InferenceSession(file.getvalue())
            (output,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
            np.testing.assert_allclose(output, model(x), rtol=1e-3, atol=1e-4)
            print(f"dynamo={dynamo}, com.microsoft {version}: the same result as torch")


if __name__ == "__main__":
    main()
