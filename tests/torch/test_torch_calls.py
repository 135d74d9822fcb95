"""What `.Torch(...)` of a pack says beyond a name: arguments, and types that are left to torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pack_building import build_pack

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402
from opgraft._base import _library  # noqa: E402
from opgraft._declare import _packs  # noqa: E402
from opgraft._declare._torch_calls import TorchArgument, TorchCall  # noqa: E402

DECLARATION = """#include <opgraft/op.h>
OPGRAFT_OP("torch.calls::Op")
    .Input<float>("x")
    .Output<float>("y")
    .Attribute<float>("scale", 2)
    .Shape(opgraft::SameAs("x"))
    {says}
    .Cpu([](opgraft::Tensor<const float>, opgraft::Tensor<float>, float) {{}});
"""


def of_shipped(name: str) -> tuple[TorchCall, ...]:
    return next(_packs.torch_calls(one) for one in _packs.shipped() if one.full_name == name)


def export(function: Any, *args: Any) -> Any:
    table = opgraft.torch.translation_table()
    return torch.onnx.export(
        function, args, dynamo=True, verbose=False, custom_translation_table=table
    ).model_proto


class Triangles(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.triu(x), torch.tril(x, -1), torch.triu(x, diagonal=2)


def test_what_ours_say() -> None:
    assert of_shipped("com.microsoft::Gelu") == (TorchCall("aten::gelu"),)
    upper, lower = of_shipped("com.microsoft::Trilu")
    assert upper.name == "aten::triu" and upper.left_to_torch == (6, 9)  # int32, bool
    assert lower.arguments == (
        TorchArgument("upper", "", 0),
        TorchArgument("k", "diagonal", None),
    )


@pytest.mark.parametrize(("dtype", "domain"), [(torch.float32, "com.microsoft"), (torch.int32, "")])
def test_arguments_and_types(dtype: Any, domain: str) -> None:
    opgraft.load(_library.shipped_packs()[0])
    x = torch.arange(12).reshape(3, 4).to(dtype)
    model = export(Triangles(), x)
    nodes = [node for node in model.graph.node if node.op_type == "Trilu"]
    assert [node.domain for node in nodes] == [domain] * 3
    session = opgraft.InferenceSession(model)
    given = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    for one, right in zip(given, Triangles()(x), strict=True):
        np.testing.assert_array_equal(one, right)


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ('.Torch("gelu")', "Torch('gelu'): expected a name such as aten::gelu"),
        (
            '.Torch("aten::a", {{"z", opgraft::Argument("b")}})',
            "'z' should take torch's 'b', but is neither an attribute nor an input",
        ),
        (
            '.Torch("aten::a", {{"scale", 1}})',
            "'scale' has a value of another kind than the attribute",
        ),
        ('.Torch("aten::a", {{"x", 1}})', "'x' is an input, which has no fixed value"),
    ],
)
def test_sentences_that_are_wrong(says: str, message: str, tmp_path: Path) -> None:
    source = tmp_path / "wrong.cc"
    source.write_text(DECLARATION.replace("{says}", says).replace("{{}}", "{}"))
    library = build_pack([source])
    with pytest.raises(opgraft.Error) as raised:
        opgraft.load(library)
    assert message in str(raised.value)
