"""Files that a model names for its weights: none outside of its folder is read, nor memory."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import opgraft
from conftest import VERSION, Write

pytestmark = pytest.mark.skipif(
    VERSION < (1, 26), reason="it is ONNX Runtime that reads these files, and older ones look less"
)


def model(module: str, location: str, **entries: str) -> onnx.ModelProto:
    """A model of one weight in another file; with a module, its Python operator takes the weight,
    so that the model is prepared."""
    weight = TensorProto(name="w", data_type=1, dims=[10], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        weight.external_data.add(key=key, value=value)
    given = {"domain": "my", "module": module, "class_name": "Op", "output_types": [1]}
    node = helper.make_node("PyOp" if module else "Identity", ["w"], ["y"],
                            **(given if module else {}))  # fmt: skip
    output = helper.make_tensor_value_info("y", 1, [10])
    graph = helper.make_graph([node], "g", [], [output], [weight])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("my", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def check_refused(made: onnx.ModelProto, folder: Path, allow: list[str]) -> None:
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    for given in (path, made):
        with pytest.raises((opgraft.Error, onnxruntime.capi.onnxruntime_pybind11_state.Fail)):
            opgraft.InferenceSession(given, allow=allow)


@pytest.mark.parametrize("with_operator", [False, True])
def test_nothing_outside_is_read(tmp_path: Path, write_module: Write, with_operator: bool) -> None:
    module = write_module("class Op:\n    def compute(self, x):\n        return x\n")
    used, allow = (module, [module]) if with_operator else ("", [])
    folder = tmp_path / "models"
    folder.mkdir()
    for place in (tmp_path / "secret.bin", folder / "weights.bin"):
        place.write_bytes(bytes(40))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "model.onnx").write_bytes(model(used, "weights.bin").SerializeToString())
    session = opgraft.InferenceSession(folder / "model.onnx", allow=allow)
    assert session.run(None, {})[0].shape == (10,)  # what lies beside the model is
    outside = str(tmp_path / "secret.bin")
    for location in ("../secret.bin", outside, "link.bin", "more/../../secret.bin"):
        check_refused(model(used, location), folder, allow)
    # What the runtime itself calls weights that lie in memory.
    address = {"offset": "4660", "length": "40"}
    check_refused(model(used, "*/_ORT_MEM_ADDR_/*", **address), folder, allow)
