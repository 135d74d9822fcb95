"""A Triton kernel as an operator of ONNX Runtime: it reads and writes the runtime's memory on the
GPU, on the stream of the run. Needs a GPU, torch and triton.

python examples/triton_operator/rms_norm.py
"""

import onnx.parser
import torch
import triton
import triton.language as tl

import opgraft


@triton.jit
def rms_norm_kernel(x, weight, y, size, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    mask = at < size
    values = tl.load(x + row * size + at, mask=mask, other=0.0).to(tl.float32)
    gains = tl.load(weight + at, mask=mask, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(values * values) / size + eps)
    tl.store(y + row * size + at, values * scale * gains, mask=mask)


@opgraft.op("my::RmsNorm", device="cuda", shape=lambda x, weight: x)
def rms_norm(
    x: torch.Tensor, weight: torch.Tensor, *, eps: float = 1e-6, out: torch.Tensor
) -> torch.Tensor:
    """Rows of x, divided by the root of their mean square, times the weights."""
    rows, size = x.shape
    rms_norm_kernel[(rows,)](x, weight, out, size, eps, BLOCK=triton.next_power_of_2(size))
    return out


MODEL = """<ir_version: 10, opset_import: ["": 21, "my": 1]>
    graph (float16[n, m] x, float16[m] weight) => (float16[n, m] y) {
        y = my.RmsNorm <eps = 0.00001> (x, weight)
    }"""


def main() -> None:
    session = opgraft.InferenceSession(
        onnx.parser.parse_model(MODEL), providers=["OpgraftCUDA", "CPUExecutionProvider"]
    )
    x = torch.randn(1000, 768, device="cuda", dtype=torch.float16)
    weight = torch.rand(768, device="cuda", dtype=torch.float16)
    (y,) = session.run(None, {"x": x, "weight": weight})  # tensors in and out, without a copy
    expected = torch.nn.functional.rms_norm(x, (768,), weight, 1e-5)
    torch.testing.assert_close(y, expected)
    print(f"my::RmsNorm of {tuple(x.shape)} on {y.device}: the same result as torch")


if __name__ == "__main__":
    main()
