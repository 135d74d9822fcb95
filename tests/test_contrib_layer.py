"""Kernels in the style of ONNX Runtime's tree (opgraft/contrib.h), in plain ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from pack_building import REPOSITORY, build_pack
from tester_programs import compile_tests, run_tests

from conftest import VERSION

FOLDER = REPOSITORY / "tests" / "packs_contrib"


@pytest.fixture(scope="module", params=["g++", "clang++"])
def compiler(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def pack(compiler: str) -> Path:
    """The file of the kernels comes first, so that they are initialised before the schemas."""
    return build_pack([FOLDER / "kernels.cc", FOLDER / "schemas.cc"], compiler)


def open_session(
    pack: Path, graph: str, version: int = 1, *, forget_outputs: bool = False
) -> onnxruntime.InferenceSession:
    head = (
        f'<ir_version: 10, opset_import: ["": 21, "test.contrib": {version}, "com.microsoft": 1]>'
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(str(pack))
    model = onnx.parser.parse_model(f"{head} g {graph}")
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"node {index}"
    for output in model.graph.output if forget_outputs else ():
        output.type.tensor_type.ClearField("shape")
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run(pack: Path, graph: str, version: int = 1, **inputs: Any) -> Any:
    return open_session(pack, graph, version).run(None, inputs)[0]


X = np.float32([1, 2, 3])


def test_attributes_and_an_absent_input(pack: Path) -> None:
    given = "<number = 2.5, count = 4, mode = 'x', numbers = [4.0], counts = [1, 2], needed = 9>"
    graph = f"(float[n] x) => (string[1] y) {{ y = test.contrib.Attributes {given} (x) }}"
    assert run(pack, graph.replace("'", '"'), x=X)[0] == "2.5 4 x 4 3 9 1 node 0 Attributes {3}"
    graph = "() => (string[1] y) { y = test.contrib.Attributes <needed = 1> () }"
    assert run(pack, graph)[0] == "1.5 3 add 3 7 1 0 node 0 Attributes absent"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("", "attribute 'needed' is missing and has no default"),
        ("<needed = 1.5>", "attribute 'needed' is FLOAT, expected INT"),
        ("<needed = 1, mode = 3>", "attribute 'mode' is INT, expected STRING"),
    ],
)
def test_wrong_attributes_are_refused(pack: Path, attributes: str, message: str) -> None:
    graph = f"() => (string[1] y) {{ y = test.contrib.Attributes {attributes} () }}"
    with pytest.raises(Exception) as failure:
        open_session(pack, graph)
    text = str(failure.value)
    assert "node 'node 0', operator test.contrib::Attributes: " in text
    assert message in text


def test_variadic_inputs_of_strings(pack: Path) -> None:
    graph = "(string[n] a, string[n] b) => (string[n] y) { y = test.contrib.Join (a, b, a) }"
    given = {"a": np.array(["1", "ä"], object), "b": np.array(["", "-"], object)}
    assert run(pack, graph, **given).tolist() == ["11", "ä-ä"]
    assert run(pack, graph, a=np.empty(0, object), b=np.empty(0, object)).shape == (0,)


def test_variadic_inputs_of_several_types(pack: Path) -> None:
    graph = (
        "(float[n] a, bool[n] b, int32[n] c) => (int64[3] y) { y = test.contrib.Count (a, b, c) }"
    )
    given = {"a": X, "b": np.array([True]), "c": np.int32([1])}
    assert run(pack, graph, **given).tolist() == [1, 9, 6]
    graph = "(float[n] a, double[n] b) => (int64[2] y) { y = test.contrib.Count (a, b) }"
    with pytest.raises(Exception, match="input 1 is float64, which the schema does not allow"):
        open_session(pack, graph)


FAILURES = {
    "status": "INVALID_ARGUMENT: no 7",
    "graph": "opgraft.ModelError: node 'node 0', operator test.contrib::Fail: INVALID_GRAPH: a bad",
    "if": 'Satisfied, but should not be: how_ == "if"',
    "error": "FAIL: inner",
    "enforce": "kernels.cc:",
    "throw": "thrown 9",
    "not implemented": "NOT_IMPLEMENTED: not yet",
    "standard": "it threw a C++ exception: far out",
    "number": "it threw an object that is not a std::exception",
    "type": "the kernel asks for float64, the tensor is float32",
    "negative": "output 0 is requested with the shape {-1}",
    "twice": "output 0 has the shape {1} already, and is requested with {2}",
    "dispatch": "Unsupported data type: 1",
    "nothing": "the kernel has not allocated output 0, 'Y'",
}


@pytest.mark.parametrize("how", FAILURES)
def test_failures_are_errors_with_the_node(pack: Path, how: str) -> None:
    graph = f'(float[n] x) => (float[n] y) {{ y = test.contrib.Fail <how = "{how}"> (x) }}'
    session = open_session(pack, graph)
    for _ in range(2):
        with pytest.raises(Exception) as failure:
            session.run(None, {"x": X})
        text = str(failure.value)
        assert "node 'node 0', operator test.contrib::Fail: " in text
        assert FAILURES[how] in text
    assert str(REPOSITORY) not in text


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("constructor", 'how_ != "constructor" was false. made badly'),
        ("kind", "not of the kind"),
    ],
)
def test_a_constructor_may_fail(pack: Path, how: str, message: str) -> None:
    graph = f'(float[n] x) => (float[n] y) {{ y = test.contrib.Fail <how = "{how}"> (x) }}'
    with pytest.raises(Exception) as failure:
        open_session(pack, graph)
    assert "node 'node 0', operator test.contrib::Fail: " in str(failure.value)
    assert message in str(failure.value)


def test_constant_inputs(pack: Path) -> None:
    graph = "(float[n] x) => (float[n] y) <float c = {10}> { y = test.contrib.AddConstant (x, c) }"
    assert run(pack, graph, x=X).tolist() == [11, 12, 13]
    graph = "(float[n] x, float c) => (float[n] y) { y = test.contrib.AddConstant (x, c) }"
    with pytest.raises(Exception, match="the constant is not known"):
        open_session(pack, graph)


@pytest.mark.parametrize("name", ["float", "double", "float16", "int8", "uint64"])
def test_one_kernel_for_each_type(pack: Path, name: str) -> None:
    graph = f"({name}[n] x) => ({name}[n] z) {{ y = test.contrib.Double (x) z = Identity (y) }}"
    values = np.array([1, 2, 60], {"float": "float32"}.get(name, name))
    assert run(pack, graph, x=values).tolist() == (values + values).tolist()


def test_bfloat16(pack: Path) -> None:
    graph = """(float[n] x) => (float[n] z) {
        a = Cast <to = 16> (x) b = test.contrib.Double (a) z = Cast <to = 1> (b) }"""
    assert run(pack, graph, x=X).tolist() == [2, 4, 6]


def test_a_type_without_a_kernel_is_refused(pack: Path) -> None:
    graph = "(int32[n] x) => (int32[n] y) { y = test.contrib.Double (x) }"
    with pytest.raises(Exception, match="Double"):
        open_session(pack, graph)


def test_versions(pack: Path) -> None:
    graph = "(float[n] x) => (int64 y) { y = test.contrib.Version (x) }"
    assert run(pack, graph, version=2, x=X) == 2


@pytest.mark.parametrize("loop", ["ranges", "simple", "batches", "no pool", "nested"])
def test_loops(pack: Path, loop: str) -> None:
    graph = f'(float[n] x) => (float[n] y) {{ y = test.contrib.Loops <loop = "{loop}"> (x) }}'
    session = open_session(pack, graph)
    for size in (0, 1, 7, 5000):
        values = np.arange(size, dtype=np.float32)
        assert np.array_equal(session.run(None, {"x": values})[0], values + 1)


def test_an_exception_comes_out_of_a_loop(pack: Path) -> None:
    graph = '(float[n] x) => (float[n] y) { y = test.contrib.Loops <loop = "throw"> (x) }'
    session = open_session(pack, graph)
    with pytest.raises(Exception, match="round 5 went wrong"):
        session.run(None, {"x": np.zeros(100, np.float32)})


@pytest.mark.parametrize(
    ("a", "b", "y"),
    [
        ("n, 3, m", "2, 5", [2, 6, 5]),
        ("n, 1, m", "n, m", ["n", 2, "m"]),
        ("n, 3, 4", "k, m", ["n", 6, 4]),
    ],
)
@pytest.mark.skipif(VERSION < (1, 28), reason="this ONNX Runtime does not take inferred shapes")
def test_inferred_shapes(pack: Path, a: str, b: str, y: list[Any]) -> None:
    graph = f"(float[{a}] a, float[{b}] b) => (float y) {{ y = test.contrib.Shapes (a, b) }}"
    session = open_session(pack, graph, forget_outputs=True)
    assert session.get_outputs()[0].shape == y


@pytest.mark.skipif(VERSION < (1, 28), reason="this ONNX Runtime does not take inferred shapes")
def test_inferred_broadcast(pack: Path) -> None:
    node = "y = com.microsoft.OpgraftTestBroadcast (a, b)"
    graph = f"(float[n, 1, 3] a, float[k, m] b) => (float y) {{ {node} }}"
    shape = open_session(pack, graph, forget_outputs=True).get_outputs()[0].shape
    assert shape == ["n", "k", 3]


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ((2, 3, 5), (3, 5), "Dimension mismatch in unification between 2 and 3"),
        ((2, 3), (2, 5), "Input 0 expected to have rank >2 but has rank 2"),
        ((2, 3, 5), (2, 5, 1), "Input 1 expected to have rank 2 but has rank 3"),
    ],
)
def test_what_the_schema_refuses_is_refused(
    pack: Path, a: tuple[int, ...], b: tuple[int, ...], message: str
) -> None:
    """Plain ONNX Runtime ignores errors of inference; the first run reports them."""
    graph = "(float[...] a, float[...] b) => (float[...] y) { y = test.contrib.Shapes (a, b) }"
    session = open_session(pack, graph.replace("[...]", ""))
    for _ in range(2):
        with pytest.raises(Exception) as failure:
            session.run(None, {"a": np.zeros(a, np.float32), "b": np.zeros(b, np.float32)})
        text = str(failure.value)
        assert "opgraft.ModelError: node 'node 0', operator test.contrib::Shapes: " in text
        assert message in text


def test_the_runtimes_own_domain_and_an_optional_output(pack: Path) -> None:
    given = {"a": np.zeros((3, 1), np.float32), "b": np.zeros(4, np.float32)}
    name = "com.microsoft.OpgraftTestBroadcast"
    graph = f"(float[3, 1] a, float[4] b) => (float[x, y] y) {{ y = {name} (a, b) }}"
    assert run(pack, graph, **given).shape == (3, 4)
    graph = f"(float[3, 1] a, float[4] b) => (int64[1] s) {{ y, s = {name} (a, b) }}"
    assert run(pack, graph, **given).tolist() == [12]


PROBLEMS = [
    "wrong::NoKernel: it has no kernel",
    "wrong::NoSchema: a kernel for version 1 has no schema; ONNX_CONTRIB_OPERATOR_SCHEMA(NoSchema)",
    "wrong::OtherVersion: it has no kernel",
    "wrong::OtherVersion: a kernel for version 3 has no schema; there are schemas of version 1",
    "wrong::TypeNotAllowed: its kernel takes float64 as 'T', which the schema does not allow; it "
    "allows float32, int64",
    "wrong::NoSuchType: its kernel constrains 'U', which is not a type of the schema",
    "wrong::TwoKernels: it has two kernels for int64",
    "wrong::TwoSchemas: it is declared twice at version 1",
    "wrong::OtherProvider: it has a kernel for ROCMExecutionProvider; a pack has kernels for "
    "kCpuExecutionProvider and kCudaExecutionProvider",
    "wrong::CudaTwice: it has two kernels for float32",
    "wrong::CudaStrings: it has a kernel for kCudaExecutionProvider with strings, which cannot be",
    "wrong::CudaNoInput: InputMemoryType names input 1, which the schema does not have",
    "wrong::CudaVariadic: InputMemoryType names input 'R', which is variadic: ONNX Runtime would",
    "wrong::CudaOutput: OutputMemoryType has output 0 in host memory, but all outputs of a",
    "wrong::WrongDefault: the default of attribute 'a' is not of the attribute's kind",
    "wrong::GraphAttribute: attribute 'body' is of a kind that a pack cannot have",
    "wrong::Gap: it has no input 1, but has a later one",
    "wrong::SecondPlace: input 0 is declared twice: as 'X' and as 'Z'",
    "wrong::NoConstraint: input 'Z' has the type 'U', which is neither",
    "wrong::Sequence: type constraint 'S' allows 'seq(tensor(float))', but a pack has only",
    "wrong::OpenOutput: output 'Z' has a type that no input has",
    "wrong::InPlace: MayInplace(1, 0) names an input or output that the schema",
    "ai.onnx::NoDomain: a pack cannot add to ONNX's own domain",
]


def test_what_does_not_go_together_is_told() -> None:
    pack = build_pack([FOLDER / "wrong.cc"])
    with pytest.raises(Exception) as failure:
        onnxruntime.SessionOptions().register_custom_ops_library(str(pack))
    text = str(failure.value)
    missing = [problem for problem in PROBLEMS if problem not in text]
    assert not missing, text


def test_the_example_and_its_tests(compiler: str) -> None:
    example = REPOSITORY / "examples" / "contrib_kernels"
    pack = build_pack([example / "row_normalize.cc"], compiler)
    printed = run_tests(compile_tests(compiler, example / "row_normalize_test.cc"), pack)
    assert "[  PASSED  ] 3 tests." in printed
