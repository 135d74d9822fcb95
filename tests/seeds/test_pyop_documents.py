"""The code of documents 000 and 001 as it stands there, run with today's onnx and ONNX Runtime."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import opgraft
from conftest import FLOAT, SEEDS

pytestmark = pytest.mark.skipif(
    not SEEDS.is_dir(), reason=f"the documents are not here: {SEEDS.parent.name}/{SEEDS.name}"
)


def document(number: str) -> str:
    (path,) = SEEDS.glob(f"{number}_*.txt")
    return path.read_text()


def code_blocks(number: str) -> list[str]:
    return [block.strip() for block in re.findall(r"```python(.*?)```", document(number), re.S)]


def unfolded_model_code() -> str:
    """Document 000 has lost its line breaks: takes the comments out and breaks the lines again."""
    comment = r"#(?:required|optional)(?:, (?:must be 'PyOp'|must be unique|'compute' by default"
    comment += r"|must all be strings))?"
    code = re.sub(comment, "", code_blocks("000")[0])
    return re.sub(r" (?=\w+_node = |graph = |model = |onnx\.save)", "\n", code)


def unfolded_module_code() -> str:
    code = code_blocks("000")[1]
    code = re.sub(r"\s*(?=class \w+:)", "\n", code)
    code = re.sub(r"\s*(?=def \w+\()", "\n    ", code)
    return re.sub(r" (?=self\.W\d = |ret = |return |r1, r2 = )", "\n        ", code)


MODELS = {"000": unfolded_model_code, "001": lambda: code_blocks("001")[0]}
MODULES = {"000": unfolded_module_code, "001": lambda: code_blocks("001")[1]}


@pytest.fixture(params=["000", "001"])
def model_path(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The model that the document's code saves; the values A to F are all that it leaves open."""
    monkeypatch.chdir(tmp_path)
    values = {name: helper.make_tensor_value_info(name, FLOAT, [2, 3]) for name in "ABCDEF"}
    exec(MODELS[request.param](), {"onnx": onnx, **vars(onnx), "helper": helper, **values})
    return tmp_path / "model.onnx"


@pytest.fixture(params=["000", "001"])
def mymodule(request: pytest.FixtureRequest, module_folder: Path) -> str:
    """The document's mymodule.py: each has its own form of Multi_2."""
    module_folder.joinpath("mymodule.py").write_text(MODULES[request.param]())
    return "mymodule"


INPUTS = {name: np.full((2, 3), index + 1, np.float32) for index, name in enumerate("ABCDE")}


def expected() -> np.ndarray:
    a, b, c, d, e = INPUTS.values()
    total = (a + b) + (c * d)
    h, n = (total + 5) + (total + 7), total + 9
    return (h + n) - (n + e)


def test_the_model_is_written_as_the_document_has_it(model_path: Path) -> None:
    model = onnx.load(model_path)
    assert [node.op_type for node in model.graph.node] == "Add Mul PyOp Add PyOp Sub".split()
    assert [entry.domain for entry in model.opset_import] == [""]
    assert model.ir_version == onnx.IR_VERSION
    assert model.opset_import[0].version == onnx.defs.onnx_opset_version()


@pytest.mark.parametrize("given_as", ["path", "bytes", "ModelProto"])
def test_the_model_runs(model_path: Path, mymodule: str, given_as: str) -> None:
    model = {
        "path": model_path,
        "bytes": model_path.read_bytes(),
        "ModelProto": onnx.load(model_path),
    }[given_as]
    session = opgraft.InferenceSession(model, allow=[mymodule])
    (result,) = session.run(["F"], INPUTS)
    np.testing.assert_array_equal(result, expected())


def test_the_operator_of_the_converter_example(module_folder: Path) -> None:
    """MyNmf of document 001, in the node that its converter adds."""
    module_folder.joinpath("mymodule.py").write_text(code_blocks("001")[3])
    weights = np.linspace(0, 1, 12, dtype=np.float32).reshape(6, 2)
    node = helper.make_node(
        "PyOp",
        ["X"],
        ["variable"],
        name="nmf",
        domain="MyDomain",
        module="mymodule",
        class_name="MyNmf",
        input_types=[FLOAT],
        output_types=[FLOAT],
        W="|".join(str(weight) for weight in weights.flatten()),
    )
    values = [helper.make_tensor_value_info(name, FLOAT, [6, 2]) for name in ("X", "variable")]
    graph = helper.make_graph([node], "nmf", values[:1], values[1:])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("MyDomain", 10)]
    model = helper.make_model(graph, opset_imports=imports)
    session = opgraft.InferenceSession(model, allow=["mymodule"])
    (result,) = session.run(None, {"X": np.zeros((6, 2), np.float32)})
    np.testing.assert_allclose(result, weights)
