"""Failures in operators written in C++ are errors with the node's name, never crashes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from pack_building import PACKS, build_pack, compile_only, find_compiler
from pack_models import node_model, open_session, run_node, the_pack

from conftest import floats

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING

FAILURES = {
    "status": "opgraft.ModelError: {}: the values do not please",
    "exception": "opgraft.Error: {}: it threw a C++ exception: a bad day",
    "int": "opgraft.Error: {}: it threw an object that is not a std::exception",
    "bad_alloc": "opgraft.Error: {}: out of memory",
    "vector": "opgraft.Error: {}: it threw a C++ exception: vector::_M_range_check",
    "zero": "opgraft.Error: {}: it threw a C++ exception: before",
    "long": "opgraft.Error: {}: it threw a C++ exception: xxxxxx",
    "bytes": "opgraft.Error: {}: it threw a C++ exception: ",
}


@pytest.mark.parametrize("how", FAILURES)
def test_kernels_that_fail(how: str) -> None:
    session = open_session(node_model("Fail", [floats(2)], how=how))
    for _ in range(2):
        with pytest.raises(Exception) as raised:
            session.run(None, {"x0": floats(2)})
        who = "node 'the node', operator test.pack::Fail"
        assert FAILURES[how].format(who) in str(raised.value)


@pytest.mark.parametrize("how", FAILURES)
def test_kernels_that_cannot_be_made(how: str) -> None:
    with pytest.raises(Exception) as raised:
        open_session(node_model("FailWhenMade", [floats(2)], how=how))
    who = "node 'the node', operator test.pack::FailWhenMade"
    if how == "status":
        assert f"{who}: it threw a C++ exception: the values do not please" in str(raised.value)
    else:
        assert FAILURES[how].format(who) in str(raised.value)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("negative", "an output is requested with the shape [2, -1]"),
        ("overflow", "is more than memory can hold"),
        ("strings", "an output is requested with the shape [-5]"),
        ("twice", "the kernel has allocated output 'y' twice"),
        ("not", "the kernel has not allocated output 'y'"),
        ("not strings", "the kernel has not allocated output 'z'"),
    ],
)
def test_outputs_allocated_wrong(how: str, text: str) -> None:
    with pytest.raises(Exception) as raised:
        run_node("Allocate", floats(2), outputs=[FLOAT, STRING], how=how)
    assert "node 'the node', operator test.pack::Allocate: " in str(raised.value)
    assert text in str(raised.value)


@pytest.mark.parametrize("how", ["huge", "huge strings"])
def test_absurd_outputs_that_would_take_memory(how: str) -> None:
    with pytest.raises(Exception, match="node 'the node', operator test.pack::Allocate: "):
        run_node("Allocate", floats(2), outputs=[FLOAT, STRING], how=how)


def test_outputs_allocated_well() -> None:
    """With a list of sizes that no longer exists when the kernel reads the shape."""
    y, z = run_node("Allocate", floats(3), outputs=[FLOAT, STRING])
    np.testing.assert_array_equal(y, floats(3, 1) + 13)
    assert z.tolist() == ["z"]
    (y,) = run_node("Allocate", floats(3), how="not strings")
    assert y.shape == (3, 1)


def test_states_are_given_back() -> None:
    def alive() -> int:
        (y,) = run_node("Alive", outputs=[INT64])
        return int(y.item())

    assert alive() == 1
    assert alive() == 1
    model = node_model("Alive", outputs=[INT64])
    sessions = [open_session(model) for _ in range(3)]
    assert alive() == 4
    del sessions
    assert alive() == 1


# Libraries


def library_of(text: str, folder: Path) -> Path:
    (folder / "pack.cc").write_text("#include <opgraft/op.h>\n" + textwrap.dedent(text))
    return build_pack([folder / "pack.cc"])


SIMPLE = """.Shape(opgraft::SameAs("x"))
    .Cpu([](opgraft::Tensor<const float>, opgraft::Tensor<float>) {});"""


@pytest.mark.parametrize(
    ("declaration", "text"),
    [
        (
            f"""OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y"){SIMPLE}
                OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y"){SIMPLE}""",
            "my::A: it is declared twice at version 1",
        ),
        (
            """OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y")
                .Shape(opgraft::SameAs("z")).Cpu([](auto, auto) {});""",
            "my::A: its shape rule names 'z', which is not an input",
        ),
        (
            """OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y")
                .Shape(opgraft::Sizes({opgraft::SizeFrom("k")})).Cpu([](auto, auto) {});""",
            "my::A: its shape rule names 'k', which is not an attribute",
        ),
        (
            """OPGRAFT_OP("my::A").Input<float>("x").Input<float>("x").Output<float>("y")
                .Shape(opgraft::SameAs("x")).Cpu([](auto, auto, auto) {});""",
            "my::A: two inputs are called 'x'",
        ),
        (
            """OPGRAFT_OP("my::A").Input<float>("").Output<float>("y")
                .Shape(opgraft::Sizes({})).Cpu([](auto, auto) {});""",
            "my::A: input 0 has no name",
        ),
        (
            """OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y").Output<float>("y")
                .Shape(opgraft::SameAs("x"), opgraft::SameAs("x")).Cpu([](auto, auto, auto) {});""",
            "my::A: two outputs are called 'y'",
        ),
        (
            """OPGRAFT_OP("my::A").VariadicInput<float>("x").Input<float>("z").Output<float>("y")
                .Shape(opgraft::SameAs("z")).Cpu([](auto, auto, auto) {});""",
            "my::A: input 'x' is variadic, but only the last one may be",
        ),
        (
            """OPGRAFT_OP("my::A").OptionalInput<float>("x").Input<float>("z").Output<float>("y")
                .Shape(opgraft::SameAs("z")).Cpu([](auto, auto, auto) {});""",
            "my::A: input 'z' is required, but comes after an optional one",
        ),
        (
            """OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y").Output<float>("z")
                .Shape(opgraft::SameAs("x")).Cpu([](auto, auto, auto) {});""",
            "my::A: it has 1 shape rules for 2 outputs",
        ),
        (
            """OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y").InPlace("a", "b")
                .Shape(opgraft::SameAs("x")).Cpu([](auto, auto) {});""",
            "my::A: InPlace names 'a', which is not an input; "
            "my::A: InPlace names 'b', which is not an output",
        ),
        (
            """OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y")
                .Attribute<float>("a", 1).Attribute<float>("a", 1)
                .Shape(opgraft::SameAs("x")).Cpu([](auto, auto, float, float) {});""",
            "my::A: two attributes are called 'a'",
        ),
        (
            """OPGRAFT_OP("my::A").Input<float>("x").Output<float>("y")
                .Attribute<opgraft::TensorValue>("t", {{3}, std::vector<float>{1, 2}})
                .Shape(opgraft::SameAs("x")).Cpu([](auto, auto, const auto&) {});""",
            "my::A: the default of attribute 't' does not have as many elements as its shape says",
        ),
        (
            f"""OPGRAFT_OP("my::A").Since(0).Input<float>("x").Output<float>("y"){SIMPLE}""",
            "my::A: its version is below 1",
        ),
    ],
)
def test_wrong_declarations_are_refused_when_the_pack_is_loaded(
    declaration: str, text: str, tmp_path: Path
) -> None:
    library = library_of(declaration, tmp_path)
    for _ in range(2):
        with pytest.raises(Exception) as raised:
            open_session(node_model("Double", [floats(1)]), libraries=[library])
        assert str(raised.value).endswith(f"opgraft.Error: {text}")


def test_a_pack_shows_two_names_and_needs_nothing_but_the_runtime_of_the_compiler() -> None:
    find_compiler("readelf")
    lines = subprocess.run(
        ["readelf", "--wide", "--dyn-syms", "--dynamic", the_pack()],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    shown = {line.split()[-1] for line in lines if " DEFAULT " in line and " UND " not in line}
    assert shown == {"RegisterCustomOps", "opgraft_pack"}
    needed = {
        line.split("[")[1].rstrip("]").split(".so")[0] for line in lines if "(NEEDED)" in line
    }
    sanitizers = {"libasan", "libubsan", "libtsan"}
    assert needed - sanitizers <= {"libstdc++", "libm", "libgcc_s", "libc", "ld-linux-x86-64"}


def test_two_packs_in_one_session(tmp_path: Path) -> None:
    """Each has its own operators, although both are built with the same SDK."""
    other = library_of(
        """OPGRAFT_OP("other::Double").Input<float>("x").Output<float>("y")
            .Shape(opgraft::SameAs("x"))
            .Cpu([](opgraft::Tensor<const float> x, opgraft::Tensor<float> y) {
              for (std::size_t i = 0; i < x.size(); ++i) y[i] = 20 * x[i];
            });""",
        tmp_path,
    )
    for libraries in ([the_pack(), other], [other, the_pack()]):
        for domain, expected in (("test.pack", [0, 2]), ("other", [0, 20])):
            model = node_model("Double", [floats(2)])
            model.graph.node[0].domain = domain
            model.opset_import.add(domain="other", version=1)
            session = open_session(model, libraries=libraries)
            assert session.run(None, {"x0": floats(2)})[0].tolist() == expected


def test_loaded_again_and_again() -> None:
    for _ in range(20):
        (y,) = run_node("Double", floats(2))
        assert y.tolist() == [0, 2]


def test_the_library_alone_in_a_process_without_opgraft(tmp_path: Path) -> None:
    library = tmp_path / "libpack.so"
    library.write_bytes(the_pack().read_bytes())
    model = node_model("Double", [floats(2)]).SerializeToString()
    program = f"""
        import sys, numpy, onnxruntime
        sys.modules["opgraft"] = None
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library({str(library)!r})
        session = onnxruntime.InferenceSession({model!r}, options)
        print(session.run(None, {{"x0": numpy.float32([1, 2])}})[0].tolist())
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[2.0, 4.0]\n"


@pytest.mark.parametrize("source", sorted(PACKS.glob("*.cc")), ids=lambda path: path.stem)
def test_each_file_with_clang(source: Path) -> None:
    done = compile_only("clang++", source)
    assert done.returncode == 0, done.stderr
