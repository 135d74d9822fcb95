"""Models with operators of packs: versions, places, the runtime's own domains, refusals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import opgraft
from conftest import run_model
from packs import build_once, operator_source

X = np.float32([1, 2])


@pytest.fixture(autouse=True)
def _loaded(first_pack: opgraft.Pack) -> None:
    pass


def parse(graph: str, imports: str = '"test.packs": 5', functions: str = "") -> onnx.ModelProto:
    head = f'<ir_version: 10, opset_import: ["": 21{", " if imports else ""}{imports}]>'
    return onnx.parser.parse_model(f"{head} graph {graph} {functions}")


def one_node(node: str, imports: str = '"test.packs": 5') -> onnx.ModelProto:
    return parse(f"(float[n] x) => (float[n] y) {{ [name] y = {node} }}", imports)


# Versions.


@pytest.mark.parametrize(("version", "step"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (9, 5)])
def test_the_version_that_the_model_imports(version: int, step: int) -> None:
    (y,) = run_model(one_node("test.packs.Step (x)", f'"test.packs": {version}'), X)
    np.testing.assert_array_equal(y, X + step)


def test_the_newest_version_where_nothing_is_imported() -> None:
    given = one_node("test.packs.Step <more = 2.0> (x)", "")
    prepared = onnx.load_from_string(opgraft.prepare(given).bytes)
    assert {one.domain: one.version for one in prepared.opset_import} == {"": 21, "test.packs": 5}
    np.testing.assert_array_equal(run_model(given, X)[0], X + 7)


def test_an_import_below_the_oldest_version() -> None:
    with pytest.raises(opgraft.ModelError) as raised:
        opgraft.prepare(one_node("test.packs.Late (x)", '"test.packs": 3'))
    assert str(raised.value) == (
        "node 'name', operator test.packs::Late: the model imports version 3 of 'test.packs', but "
        "the pack libfirst.so has the operator from version 4 on"
    )


def test_what_an_older_version_does_not_have() -> None:
    with pytest.raises(opgraft.ModelError, match="node 'name', operator test.packs::Step.*'more'"):
        opgraft.prepare(one_node("test.packs.Step <more = 2.0> (x)", '"test.packs": 3'))


def test_whole_numbers_stand_for_floats() -> None:
    """As if the pack were a plain library."""
    given = one_node("test.packs.Scale <factor = 3> (x)")
    assert given.graph.node[0].attribute[0].type == onnx.AttributeProto.INT
    np.testing.assert_array_equal(run_model(given, X)[0], X * 3)


# Places.


@pytest.mark.parametrize("version", [1, 5])
def test_in_the_branches_of_an_if(version: int) -> None:
    given = parse(
        """(float[n] x, bool c) => (float[n] y) {
            y = If (c) <
                then_branch = t () => (float[n] a) { a = test.packs.Step (x) },
                else_branch = e () => (float[n] b) { b = test.packs.Scale (x) }> }""",
        f'"test.packs": {version}',
    )
    np.testing.assert_array_equal(run_model(given, X, True)[0], X + version)
    np.testing.assert_array_equal(run_model(given, X, False)[0], X * 2)


@pytest.mark.parametrize("version", [3, 5])
def test_in_the_body_of_a_loop(version: int) -> None:
    given = parse(
        """(float[n] x, int64 times) => (float[n] y) {
            go = Constant <value = bool {1}> ()
            y = Loop (times, go, x) <body = b (int64 i, bool c, float[n] s) => (bool d, float[n] t)
                { d = Identity (c)  t = test.packs.Step (s) }> }""",
        f'"test.packs": {version}',
    )
    (y,) = run_model(given, X, np.int64(4))
    np.testing.assert_array_equal(y, X + 4 * version)


def function(
    body: str, imports: str = '"": 21, "test.packs": 5', domain: str = "local", name: str = "f"
) -> str:
    return f'<domain: "{domain}", opset_import: [{imports}]> {name} (x) => (y) {{ {body} }}'


def test_in_functions() -> None:
    inner = function("y = test.packs.Step (x)")
    outer = function(
        "t = local.f (x) y = test.packs.Scale (t)", '"": 21, "test.packs": 5, "local": 1', name="g"
    )
    given = parse(
        "(float[n] x) => (float[n] y) { t = local.g (x) y = local.f (t) }",
        '"local": 1, "test.packs": 5',
        f"{inner} {outer}",
    )
    prepared = onnx.load_from_string(opgraft.prepare(given).bytes)
    assert [node.op_type for node in prepared.graph.node] == ["Step", "Scale", "Step"]
    np.testing.assert_array_equal(run_model(given, X)[0], (X + 5) * 2 + 5)


def test_a_domain_that_only_a_function_imports() -> None:
    given = parse(
        "(float[n] x) => (float[n] y) { y = local.f (x) }",
        '"local": 1',
        function("y = test.packs.Step (x)", '"": 21, "test.packs": 3'),
    )
    np.testing.assert_array_equal(run_model(given, X)[0], X + 3)


@pytest.mark.parametrize(("version", "is_same"), [(9, True), (4, False), (1, False)])
def test_a_function_that_imports_another_version(version: int, is_same: bool) -> None:
    """Its nodes are inlined into the model's graph, for which the model's version counts."""
    given = parse(
        "(float[n] x) => (float[n] y) { y = local.f (x) }",
        '"local": 1, "test.packs": 5',
        function("y = test.packs.Step (x)", f'"": 21, "test.packs": {version}'),
    )
    if is_same:
        np.testing.assert_array_equal(run_model(given, X)[0], X + 5)
        return
    with pytest.raises(opgraft.ModelError, match=f"'local.f'.* uses version {version} of 'test"):
        opgraft.prepare(given)


def test_a_function_in_the_domain_of_a_pack() -> None:
    given = parse(
        "(float[n] x) => (float[n] y) { t = test.packs.f (x) y = test.packs.Scale (t) }",
        '"test.packs": 5',
        function("t = test.packs.Scale (x) y = Neg (t)", domain="test.packs"),
    )
    np.testing.assert_array_equal(run_model(given, X)[0], X * -4)


# The runtime's own domains.

QUICK_GELU = "com.microsoft.QuickGelu <alpha = 1.0> (x)"
MICROSOFT = '"com.microsoft": 1'


@pytest.mark.usefixtures("runtimes_pack")
@pytest.mark.parametrize("version", [1, 5])
def test_the_runtimes_own_kernel_runs_by_default(version: int) -> None:
    imports = f'"com.microsoft": {version}'  # document 003 has 5, the runtime 1
    (y,) = run_model(one_node(QUICK_GELU, imports), X)
    np.testing.assert_allclose(y, X / (1 + np.exp(-X)), rtol=1e-5)


@pytest.mark.usefixtures("runtimes_pack")
@pytest.mark.parametrize("prefer", ["com.microsoft::QuickGelu", "com.microsoft"])
@pytest.mark.parametrize("imports", [MICROSOFT, '"com.microsoft": 5', ""])
def test_ours_where_it_is_preferred(prefer: str, imports: str) -> None:
    given = one_node(QUICK_GELU, imports)
    np.testing.assert_array_equal(run_model(given, X, prefer=[prefer])[0], X + 100)
    np.testing.assert_array_equal(run_model(given, X, prefer=prefer)[0], X + 100)


def test_a_programs_own_pack_is_preferred_to_ours(tmp_path: Path) -> None:
    """In a separate process, since the packs that come with Opgraft have the operator too."""
    library = build_once("own_gelu", operator_source("Gelu", "x[i] + 7", "com.microsoft"))
    model = tmp_path / "model.onnx"
    onnx.save(one_node("com.microsoft.Gelu (x)", MICROSOFT), model)
    program = f"""
import numpy, opgraft
opgraft.load({str(library)!r})
session = opgraft.InferenceSession({str(model)!r}, prefer=["com.microsoft::Gelu"])
print(session.run(None, {{"x": numpy.float32([1])}})[0])
"""
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[8.]\n"


def test_what_is_preferred_stays_so_when_saved(runtimes_pack: opgraft.Pack) -> None:
    prepared = opgraft.prepare(one_node(QUICK_GELU, MICROSOFT), prefer=["com.microsoft::QuickGelu"])
    assert prepared.packs == {"com.microsoft::QuickGelu": runtimes_pack.path}
    options = onnxruntime.SessionOptions()
    opgraft.register(options)
    session = onnxruntime.InferenceSession(prepared.bytes, options)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X + 100)
    again = opgraft.prepare(prepared.bytes)
    assert (again.packs, again.bytes) == (prepared.packs, prepared.bytes)


@pytest.mark.usefixtures("runtimes_pack")
def test_an_operator_that_the_runtime_does_not_have_needs_no_preference() -> None:
    np.testing.assert_array_equal(
        run_model(one_node("com.microsoft.OnlyOurs (x)", MICROSOFT), X)[0], X + 200
    )


@pytest.mark.usefixtures("runtimes_pack")
def test_operators_of_onnx_itself() -> None:
    given = one_node("Softplus (x)", "")
    np.testing.assert_allclose(run_model(given, X)[0], np.log1p(np.exp(X)), rtol=1e-5)
    for prefer in ("ai.onnx::Softplus", "ai.onnx"):
        np.testing.assert_array_equal(run_model(given, X, prefer=[prefer])[0], X + 400)
    # The model's opset is older than the pack's version, which matters only if the pack runs it.
    given = one_node("Softsign (x)", "")
    np.testing.assert_allclose(run_model(given, X)[0], X / (1 + X), rtol=1e-5)
    with pytest.raises(opgraft.ModelError, match="operator ::Softsign.* from version 22 on"):
        opgraft.prepare(given, prefer=["ai.onnx::Softsign"])


@pytest.mark.usefixtures("runtimes_pack")
def test_preferring_a_domain_leaves_what_packs_do_not_have_to_the_runtime() -> None:
    given = one_node("com.microsoft.FastGelu (x)", MICROSOFT)
    np.testing.assert_array_equal(
        run_model(given, X, prefer=["com.microsoft"])[0], run_model(given, X)[0]
    )


def test_a_preference_for_something_unknown() -> None:
    for make in (opgraft.InferenceSession, opgraft.prepare):
        with pytest.raises(opgraft.Error) as raised:
            make(one_node("test.packs.Scale (x)"), prefer=["com.microsoft::Nothing"])
        assert str(raised.value) == (
            "prefer: no loaded pack has 'com.microsoft::Nothing'; expected "
            '"domain::Name", or a domain for all operators that packs have in it. Fix: load '
            "the pack with opgraft.load(path)"
        )


@pytest.mark.parametrize("prefer", [3, [b"com.microsoft"], b"com.microsoft"])
def test_a_preference_that_is_no_list_of_names(prefer: Any) -> None:
    with pytest.raises(TypeError, match=r'prefer: expected names such as \["com.microsoft::Gelu"'):
        opgraft.prepare(one_node("test.packs.Scale (x)"), prefer=prefer)


# Nodes that do not fit.


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ("test.packs.Scale (x, x)", "1 input"),
        ("test.packs.Scale ()", "1 input"),
        ("test.packs.Repeat (x)", "2 inputs"),
        ('test.packs.Scale <factor = "two"> (x)', "factor"),
        ("test.packs.Scale <fcator = 2.0> (x)", "fcator"),
        ("test.packs.Fail (x)", "text"),
        ("test.packs.Shout (x)", "float32"),
        ("test.packs.Repeat (x, x)", "float32"),
    ],
)
def test_a_node_that_does_not_fit(node: str, text: str) -> None:
    operator = node.split()[0].replace("packs.", "packs::")
    with pytest.raises(opgraft.ModelError) as raised:
        opgraft.prepare(one_node(node))
    assert str(raised.value).startswith(f"node 'name', operator {operator}: ")
    assert text in str(raised.value)


def test_too_many_outputs() -> None:
    given = parse("(float[n] x) => (float[n] y) { [name] y, z = test.packs.Scale (x) }")
    with pytest.raises(opgraft.ModelError, match="node 'name', operator test.packs::Scale: .*outp"):
        opgraft.prepare(given)


def test_an_input_that_is_absent_but_required() -> None:
    given = parse("(float[n] x) => (float[n] y) { [name] y = test.packs.Shift (, x) }")
    with pytest.raises(
        opgraft.ModelError, match="operator test.packs::Shift: input 0, 'x', is abs"
    ):
        opgraft.prepare(given)


def test_a_kernel_that_fails() -> None:
    with pytest.raises(opgraft.Error, match="'name'.*test.packs::Fail.*as it was told"):
        run_model(one_node('test.packs.Fail <text = "as it was told"> (x)'), X)


# Values.


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_types(dtype: str) -> None:
    onnx_type = {"float32": "float", "float64": "double"}.get(dtype, dtype)
    given = parse(
        f"({onnx_type}[n] x) => ({onnx_type}[n] y) {{ y = test.packs.Scale <factor = 1.5> (x) }}"
    )
    (y,) = run_model(given, X.astype(dtype))
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, [1.5, 3])


@pytest.mark.parametrize("ends", [None, ["?"], ["", "ä", "x:y", "3:"]])
def test_lists_of_strings(ends: list[str] | None) -> None:
    """Runtimes before 1.25 cannot pass them, so preparing packs them into one string."""
    given = parse("(string[n] x) => (string[n] y) { [name] y = test.packs.Shout (x) }")
    if ends is not None:
        given.graph.node[0].attribute.append(onnx.helper.make_attribute("ends", ends))
    (y,) = run_model(given, np.array(["a", "", "ö\0"], object))
    end = "!" if ends is None else "".join(ends)
    assert y.tolist() == [f"a{end}", end, f"ö\0{end}"]
    for runtime in ("1.24.0", "1.25.0"):
        (node,) = onnx.load_from_string(opgraft.prepare(given, runtime=runtime).bytes).graph.node
        kinds = {one.name: one.type for one in node.attribute}
        strings, string = onnx.AttributeProto.STRINGS, onnx.AttributeProto.STRING
        plain, packed = {"ends": strings}, {"opgraft.texts.ends": string}
        assert kinds == ({} if ends is None else packed if runtime == "1.24.0" else plain)


def test_a_packed_list_is_read_by_every_runtime(tmp_path: Path) -> None:
    given = parse(
        '(string[n] x) => (string[n] y) { [name] y = test.packs.Shout <ends = ["1", "2:"]> (x) }'
    )
    opgraft.prepare(given, runtime="1.19.2").save(tmp_path / "prepared.onnx")
    session = opgraft.InferenceSession(tmp_path / "prepared.onnx")
    assert session.run(None, {"x": np.array(["a"], object)})[0].tolist() == ["a12:"]


@pytest.mark.parametrize("bias", [None, np.float32([10, 20])])
def test_optional_inputs(bias: np.ndarray | None) -> None:
    is_there = bias is not None
    inputs, names = ("float[n] x, float[n] b", "x, b") if is_there else ("float[n] x", "x")
    given = parse(f"({inputs}) => (float[n] y) {{ y = test.packs.Shift ({names}) }}")
    arrays = [X] if bias is None else [X, bias]
    expected = X + (1000 if bias is None else bias)
    np.testing.assert_array_equal(run_model(given, *arrays)[0], expected)
