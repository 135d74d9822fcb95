"""What is wrong with an ATen node, its inputs or its host is an error that says so; no crash."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import opgraft

torch = pytest.importorskip("torch", reason="ATen nodes need torch")

from aten_models import Case, model_of, of_call  # noqa: E402

from opgraft.torch._rungs._aten import Input, Output, aten_node, is_listed  # noqa: E402

A = torch.ops.aten
FEED = {"x0": np.ones((3, 3), np.float32)}


def svd(**attributes: Any) -> onnx.ModelProto:
    """A model of a good node, with some of its attributes replaced."""
    node = aten_node(A.linalg_svd.default, [Input("x0")], {}, [Output("float32")] * 3)
    node.attributes.update(attributes)
    return model_of(node, FEED)


def refusal(model: onnx.ModelProto, feed: dict[str, np.ndarray] = FEED, **how: Any) -> Exception:
    with pytest.raises(opgraft.Error) as caught:
        opgraft.InferenceSession(model, **how).run(None, feed)
    assert "node 'it', operator" in str(caught.value)
    return caught.value


def test_the_model_itself_is_good() -> None:
    assert len(opgraft.InferenceSession(svd()).run(None, FEED)) == 3


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"operator": "aten::no_such"}, "there is no such operator"),
        ({"operator": "torchvision::nms"}, "only operators of the namespace aten"),
        ({"operator": "prims::svd"}, "only operators of the namespace aten"),
        ({"operator": "aten::relu_"}, "there is no such operator, or it writes to its arguments"),
        (
            {"operator": "aten::median", "overload_name": "dims"},
            "it has no such overload; its overloads are ''",
        ),
        ({"encoding": 2}, "in encoding 2, this Opgraft reads encoding 1; install a newer one"),
        (
            {"arguments": "(%0)", "results": "float32[...]"},
            r"it returns \(Tensor, Tensor, Tensor\)",
        ),
        ({"results": "float32[...], float32[...], int"}, r"it returns \(Tensor, Tensor, Tensor\)"),
        ({"results": "[float32[...]], float32[...], float32[...]"}, "it returns"),
        ({"arguments": "(%1)"}, "argument 'A': it is input %1, but the node has only 1 input"),
        ({"arguments": "(%0, 1)"}, "argument 'full_matrices': expected bool, got 1"),
        ({"arguments": "(%0, %0)"}, "argument 'full_matrices': expected bool, got a tensor"),
        ({"arguments": "(1)"}, "argument 'A': expected Tensor, got 1"),
        ({"arguments": "(null)"}, "argument 'A': expected Tensor, got null"),
        ({"arguments": "()"}, "argument 'A' is missing in the node"),
        ({"arguments": "([%0])"}, "argument 'A': expected Tensor, got a list"),
        ({"arguments": "(%0, true, driver=4)"}, r"argument 'driver': expected str\?, got 4"),
        ({"arguments": "(%0, drivers=null)"}, "it has no argument 'drivers'"),
        ({"arguments": "(%0, A=%0)"}, "its argument 'A' is given twice"),
        ({"arguments": "(%0, true, null, null)"}, "it takes 3 arguments, the node has 4"),
        (
            {"arguments": "(%0"},
            "'arguments' is malformed at offset 3, where ',' or '\\)' is expected",
        ),
        ({"arguments": "(%99999999999999999999)"}, "the index of an input"),
        ({"arguments": "(complex(%0))"}, "a complex tensor must be float16"),
        ({"results": "float32[, float32[], float32[]"}, "'results' is malformed at offset 8"),
        ({"results": "floats[1], float32[], float32[]"}, "an element type of tensors"),
        ({"results": "float32[3,4], float32[...], float32[...]"}, "shape .3, 3., .* says .3, 4."),
    ],
)
def test_what_is_wrong_with_a_node(attributes: dict[str, Any], says: str) -> None:
    error = refusal(svd(**attributes))
    assert isinstance(error, opgraft.ModelError)
    assert re.search(says, str(error)), error


def test_a_result_of_another_type() -> None:
    case = of_call(A.argmax.default, [torch.ones(3)], results=Output("float32"))
    assert "is int64, but the node's attribute 'results' says float32" in str(
        refusal(case.model, case.feed)
    )


def test_another_number_of_results() -> None:
    case = of_call(A.split.Tensor, [torch.ones(6), 2], results=[Output("float32")] * 2)
    assert "it returns a list of 3 tensors, but the node's attribute 'results' says 2" in str(
        refusal(case.model, case.feed)
    )


def test_types_of_the_graph_must_be_those_of_the_node() -> None:
    case = of_call(A.lgamma.default, [torch.ones(3)], results=Output("float32"))
    case.model.graph.output[0].type.tensor_type.elem_type = 11
    assert "is float32 by the node's attribute 'results', but float64 in the graph" in str(
        refusal(case.model, case.feed)
    )


def test_what_the_operator_says() -> None:
    error = refusal(of_call(A.linalg_inv.default, [torch.eye(3)]).model, {"x0": FEED["x0"]})
    assert "The diagonal element 2 is zero" in str(error) or "singular" in str(error)
    assert type(error) is opgraft.Error


def test_a_number_that_is_none() -> None:
    case = of_call(A.roll.default, [torch.ones(3), [1], [0]], numbers=[1])
    case.feed["x1"] = np.array([1, 2])
    case.model.graph.input[1].type.tensor_type.shape.Clear()
    assert "input %1 must hold one int, but is int64[2]" in str(refusal(case.model, case.feed))


def test_scalars_are_named() -> None:
    case = of_call(A.renorm.default, [torch.ones(3, 3), 2, 0, 1.5])
    assert "argument 'p' is a Scalar" in str(refusal(case.model, case.feed))


@pytest.mark.parametrize("target", [A.trapezoid.dx, A.cumulative_trapezoid.dx])
def test_a_step_is_not_taken_for_samples(target: Any) -> None:
    """There is an overload of the same types, which takes the places of the samples."""
    case = of_call(target, [torch.ones(3, 2, dtype=torch.float64)], {"dx": 1.0})
    assert "argument 'dx' is a Scalar" in str(refusal(case.model, case.feed))


@pytest.mark.parametrize(
    ("overload", "args", "says"),
    [
        (A.lu_unpack.default, [torch.eye(3), torch.tensor([1, 2, 9], dtype=torch.int32)], "pivots"),
        (A.lu_unpack.default, [torch.eye(3), torch.zeros(0, dtype=torch.int32)], "pivots"),
        (A.lcm.default, [torch.tensor([-(2**63)]), torch.tensor([3])], "the smallest"),
        (A.reshape.default, [torch.ones(1), [1] * 300], "expected at most 64 numbers, got 300"),
        (A.unsqueeze.default, [torch.ones([1] * 64), 0], "65 dimensions, expected at most 64"),
        (
            A.scatter_reduce.two,
            [torch.ones(3), 0, torch.tensor([0]), torch.ones(3), "Could not find schema for"],
            "Could not find schema for",
        ),
        (A.max_pool1d.default, [torch.ones(1, 4), [2], [], [0], [2**62]], "below 2.31"),
        (
            A.ctc_loss.Tensor,
            [torch.zeros(5, 1, 4), torch.tensor([[9, 1]]), torch.tensor([5]), torch.tensor([2])],
            "targets and blank from 0 to 3",
        ),
        (
            A.native_batch_norm.default,
            [torch.ones(2, 3), None, None, None, None, False, 0.1, 1e-5],
            "training=true, or running_mean",
        ),
    ],
)
def test_what_operators_do_not_check(overload: Any, args: list[Any], says: str) -> None:
    """Each of these has ended the process."""
    results = [Output("float32") for _ in overload._schema.returns]
    case = of_call(overload, args, results=results if len(results) > 1 else results[0])
    assert re.search(says, str(refusal(case.model, case.feed)))


def test_a_node_of_torchs_own_in_a_plain_session() -> None:
    model = svd()
    node = model.graph.node[0]
    kept = [one for one in node.attribute if one.name in ("operator", "overload_name")]
    del node.attribute[:]
    node.attribute.extend(kept)
    model.opset_import.append(helper.make_opsetid("org.pytorch.aten", 1))
    options = onnxruntime.SessionOptions()
    opgraft.register(options)
    with pytest.raises(Exception, match="must be prepared first"):
        onnxruntime.InferenceSession(model.SerializeToString(), options)


# What may run.


def sigmoid_backward() -> Case:
    return of_call(A.sigmoid_backward.default, [torch.ones(3), torch.full((3,), 0.5)])


def test_an_operator_that_is_not_on_the_list() -> None:
    case = sigmoid_backward()
    error = refusal(case.model, case.feed)
    assert isinstance(error, opgraft.PolicyError)
    assert 'allow=["aten::sigmoid_backward"]' in str(error)
    for allowed in (["aten::sigmoid_backward"], ["mymodule", "aten::sigmoid_backward"]):
        (got,) = opgraft.InferenceSession(case.model, allow=allowed).run(None, case.feed)
        np.testing.assert_allclose(got, case.expected[0])
    for other in (["aten"], ["aten::sigmoid"], ["aten::sigmoid_backward.out"], ["aten.*"]):
        assert isinstance(refusal(case.model, case.feed, allow=other), opgraft.PolicyError)


def test_the_environment_allows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPGRAFT_ALLOW", "aten::sigmoid_backward")
    case = sigmoid_backward()
    opgraft.InferenceSession(case.model).run(None, case.feed)


def test_files_are_out_of_reach(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"\1" * 64)
    case = of_call(A.from_file.default, [str(path), False, 16], results=Output("float32", (16,)))
    assert isinstance(refusal(case.model, case.feed), opgraft.PolicyError)
    case = of_call(
        A.from_file.default, [str(tmp_path / "new"), True, 16], results=Output("float32")
    )
    assert isinstance(refusal(case.model, case.feed), opgraft.PolicyError)
    assert not (tmp_path / "new").exists()


def test_the_list() -> None:
    for name in ("linalg_inv", "lgamma", "fft_fft", "cat", "cumprod", "ctc_loss.Tensor"):
        base, _, overload = name.partition(".")
        assert is_listed(getattr(getattr(A, base), overload or "default")) is True
    for overload in (
        A.from_file.default,
        A.embedding_bag.default,
        A.max_pool2d_with_indices_backward.default,
    ):
        assert is_listed(overload) is False
    for overload in (
        A.relu_.default,
        A._sparse_coo_tensor_unsafe.default,
        A.lgamma.out,
        A.copy_.default,
    ):
        assert is_listed(overload) is None


def test_any_damage_to_the_texts() -> None:
    """Whatever bytes stand in the attributes, there is an error or a result."""
    chance = random.Random(1)
    good = {
        "arguments": "(%0, true, driver=null)",
        "results": 'float32[3,n], float32[...], float32["2*n",?]',
        "operator": "aten::linalg_svd",
    }
    for _ in range(120):
        name = chance.choice(list(good))
        text = list(good[name])
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(text))
            sign = chance.choice('()[]{}",.%:=-+0123456789enulltrufasiptcx\\\0\n\x7fé')
            text[place : place + chance.randint(0, 2)] = [sign] * chance.randint(0, 3)
        try:
            opgraft.InferenceSession(svd(**{name: "".join(text)})).run(None, FEED)
        except opgraft.Error:
            continue


# Where libtorch is.

SCRIPT = """
import sys
import numpy as np
import opgraft
assert "torch" not in sys.modules
try:
    session = opgraft.InferenceSession("model.onnx")
    print(session.run(None, {"x0": np.eye(3, dtype=np.float32) * 2})[0][0])
except opgraft.Error as error:
    print(type(error).__name__, error)
assert "torch" not in sys.modules
"""


def run_script(folder: Path, script: str = SCRIPT, **variables: str) -> str:
    onnx.save(of_call(A.linalg_inv.default, [torch.eye(3)]).model, folder / "model.onnx")
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_python_without_torch_imported(tmp_path: Path) -> None:
    assert run_script(tmp_path) == "[0.5 0.  0. ]"
    library = Path(torch.__file__).parent / "lib"
    for named in (library, library / "libtorch_cpu.so", library.parent):
        assert run_script(tmp_path, OPGRAFT_LIBTORCH=str(named)) == "[0.5 0.  0. ]"


def test_torch_that_is_imported_later(tmp_path: Path) -> None:
    """It finds its library loaded, and both go on."""
    more = """
        import torch
        print(torch.linalg.inv(torch.eye(2) * 4)[0, 0].item(), end=" ")
        print(session.run(None, {"x0": np.eye(3, dtype=np.float32) * 8})[0][0][0], end=" ")
        loaded = {line.split()[-1] for line in open("/proc/self/maps") if "libtorch_cpu" in line}
        print(len(loaded))
    """
    script = SCRIPT.replace('assert "torch" not in sys.modules\n', "", 1) + textwrap.dedent(more)
    assert run_script(tmp_path, script).splitlines()[1:] == ["0.25 0.125 1"]


def test_libtorch_that_is_not_there(tmp_path: Path) -> None:
    said = run_script(tmp_path, OPGRAFT_LIBTORCH=str(tmp_path))
    assert said.startswith(
        "UnavailableError node 'it', operator aten::linalg_inv: OPGRAFT_LIBTORCH"
    )
    assert "pip install torch" in said


def test_libtorch_that_is_too_old(tmp_path: Path) -> None:
    """A library that has the functions of an older one."""
    source = tmp_path / "old.c"
    source.write_text(
        "unsigned long long aoti_torch_abi_version() { return (2ull << 56) | (7ull << 48); }"
    )
    old = tmp_path / "libtorch_cpu.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(old), str(source)], check=True)
    said = run_script(tmp_path, OPGRAFT_LIBTORCH=str(old))
    assert said.startswith("UnavailableError")
    assert "torch 2.7, which is too old: it has no torch_call_dispatcher" in said
