"""Python operators inside a model's own functions, which are inlined while preparing."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper

import opgraft
from conftest import FLOAT, Write

SCALE = """
    class Scale:
        def __init__(self, by=10.0, name="none"):
            self.by, self.name = np.float32(by), name

        def compute(self, x, y=None):
            return x * self.by if y is None else x * self.by + y
"""


def parse(text: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(text)
    assert model.functions
    return model


def run(model: onnx.ModelProto, module: str, **inputs: object) -> list[np.ndarray]:
    session = opgraft.InferenceSession(model, allow=[module])
    return session.run(None, {name: np.float32(value) for name, value in inputs.items()})


def head(imports: str = '"": 21, "local": 1, "py": 1') -> str:
    return f"<ir_version: 10, opset_import: [{imports}]>\n"


def function(body: str, imports: str = '"": 21, "local": 1, "py": 1') -> str:
    return f'\n<domain: "local", opset_import: [{imports}]>\n{body}\n'


def pyop(module: str, more: str = "") -> str:
    return f'py.PyOp <module="{module}", class_name="Scale", output_types=[1]{more}>'


def test_a_function_called_several_times(write_module: Write) -> None:
    """Every name in it is also a name in the calling graph."""
    module = write_module(SCALE)
    model = parse(
        head()
        + """graph (float[n] x, float[n] t) => (float[n] y, float[n] z)
        { a = local.f(x, t)  t1 = Add(a, t)  y = local.f(t1, x)  z = Sub(y, a) }"""
        + function(f"f (t, x) => (z) {{ y = {pyop(module)}(t)  a = Add(y, x)  z = Neg(a) }}")
    )
    expected_a = -(10 * 3 + 5)
    expected_y = -(10 * (expected_a + 5) + 3)
    y, z = run(model, module, x=[3], t=[5])
    assert (y[0], z[0]) == (expected_y, expected_y - expected_a)
    prepared = onnx.load_from_string(opgraft.prepare(model).bytes)
    assert not prepared.functions
    names = [name for node in prepared.graph.node for name in node.output]
    assert len(names) == len(set(names)) == 8
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(prepared))


def test_nodes_keep_names_of_their_own(write_module: Write) -> None:
    module = write_module(SCALE)
    model = parse(
        head()
        + """graph (float[n] x) => (float[n] y)
        { a = local.f(x) [b] b = local.f(a) y = Identity(b) }"""
        + function(f"f (x) => (y) {{ [node] y = {pyop(module)}(x) }}")
    )
    model.graph.node[0].name = "f_1/node"
    report = opgraft.prepare(model).report
    assert [operator.node for operator in report] == ["f_1/node_", "f_2/node"]
    assert run(model, module, x=[1])[0] == 100


def test_attributes(write_module: Write) -> None:
    """Given, default and absent attributes, through two levels, for our operator and ONNX's own."""
    module = write_module(SCALE)
    model = parse(
        head()
        + """graph (float[2, 3] x) => (y, z, w)
        { y = local.outer<axis = 0, by = 2.0>(x)  z = local.outer<axis = 1>(x)
          w = local.inner<axis = 0>(x) }"""
        + function(
            """outer <axis, by: float = 3.0> (x) => (y)
            { y = local.inner <axis: int = @axis, by: float = @by> (x) }"""
        )
        + function(
            f"""inner <axis, by, keepdims: int = 0> (x) => (y)
            {{ s = {pyop(module, ", by: float = @by")}(x) axes = Constant <value_ints = [0]> ()
               m = local.mean <axis: int = @axis> (s)  y = Squeeze(m) }}"""
        )
        + function(
            f"""mean <axis> (x) => (y)
            {{ p = {pyop(module, ", by = 1.0")}(x)
               y = ArgMax<axis: int = @axis, keepdims = 1>(p) }}"""
        )
    )
    for output in model.graph.output:
        output.type.tensor_type.elem_type = onnx.TensorProto.INT64
    x = np.float32([[1, 5, 3], [4, 2, 6]])
    y, z, w = run(model, module, x=x)
    np.testing.assert_array_equal(y, x.argmax(0))
    np.testing.assert_array_equal(z, x.argmax(1))
    np.testing.assert_array_equal(w, x.argmax(0))
    prepared = onnx.load_from_string(opgraft.prepare(model).bytes)
    given = [
        {a.name: a.f for a in onnx.NodeProto.FromString(packed.s).attribute}
        for node in prepared.graph.node
        for packed in node.attribute
        if packed.name == "arguments"
    ]
    # For each call, the operator of `inner`, then that of `mean`.
    assert given == [{"by": 2.0}, {"by": 1.0}, {"by": 3.0}, {"by": 1.0}, {"by": 1.0}]
    assert all(not a.ref_attr_name for node in prepared.graph.node for a in node.attribute)


def test_an_absent_attribute_leaves_the_default_of_the_class(write_module: Write) -> None:
    module = write_module(SCALE)
    model = parse(
        head()
        + "graph (float[n] x) => (float[n] y) { y = local.f(x) }"
        + function(f"f <by> (x) => (y) {{ y = {pyop(module, ', by: float = @by')}(x) }}")
    )
    assert run(model, module, x=[2])[0] == 20


def test_absent_inputs_and_outputs(write_module: Write) -> None:
    module = write_module(SCALE)
    body = function(
        f"""f (x, more) => (y, z)
        {{ a = {pyop(module)}(x, more)  y = Neg(a)  z = Abs(a) }}"""
    )
    for call, expected in {
        "y = local.f(x)": -20,
        "y, q = local.f(x, x)": -22,
        '"", y = local.f(x, "")': 20,
    }.items():
        model = parse(head() + "graph (float[n] x) => (float[n] y) { " + call + " }" + body)
        assert run(model, module, x=[2])[0] == expected, call


def test_an_input_that_is_an_output(write_module: Write) -> None:
    module = write_module(SCALE)
    model = parse(
        head()
        + """graph (float[n] x) => (float[n] y, float[n] z, float[n] w, float[n] v)
        { y, z, w, v = local.f(x) }"""
        + function(f"f (a) => (a, b, b, a) {{ b = {pyop(module)}(a) }}")
    )
    assert [value[0] for value in run(model, module, x=[3])] == [3, 30, 30, 3]


def test_graphs_inside_a_function(write_module: Write) -> None:
    """They capture the function's values; their own values have names that the caller uses too."""
    module = write_module(SCALE)
    body = function(
        f"""f (x, c) => (y) {{
          s = {pyop(module, ", by = 2.0")}(x)
          y = If (c) <
            then_branch = then_graph () => (t) {{ u = {pyop(module)}(s) t = Add(u, x) }},
            else_branch = else_graph () => (t) {{
              d = Not(c)
              t = If (d) <
                then_branch = inner () => (u) {{ v = Add(s, x) u = local.g(v) }},
                else_branch = other () => (u) {{ u = Identity(s) }}
              >
            }}
          >
        }}"""
    ) + function(f"g (t) => (s) {{ s = {pyop(module, ', by = 100.0')}(t) }}")
    model = parse(
        head()
        + """graph (float[n] x, bool c, float[n] t, float[n] u) => (float[n] y, float[n] s)
        { s = Add(t, u)  z = local.f(t, c)  v = Not(c)  w = local.f(u, v)  y = Add(z, w) }"""
        + body
    )

    def f(x: float, c: bool) -> float:
        return 20 * x + x if c else 100 * (2 * x + x)

    session = opgraft.InferenceSession(model, allow=[module])
    for c in (True, False):
        x, t, u = (np.float32([value]) for value in (0, 3, 7))
        y, s = session.run(None, {"x": x, "t": t, "u": u, "c": np.array(c)})
        assert (y[0], s[0]) == (f(3, c) + f(7, not c), 10)


def test_calls_in_loops(write_module: Write) -> None:
    module = write_module(SCALE)
    model = parse(
        head()
        + """graph (float[1] x, int64 n) => (float[1] y, scan)
        { c = Constant <value = bool {1}> ()
          y, scan = Loop (n, c, x) <body = body (int64 i, bool c_in, float[1] v)
              => (bool c_out, float[1] v_out, float[1] each)
            { c_out = Identity(c_in)  w = local.f(v)  v_out = Add(w, x)  each = local.f(x) }> }"""
        + function(f"f (x) => (y) {{ v = {pyop(module, ', by = 2.0')}(x) y = Neg(v) }}")
    )
    model.graph.output[1].type.tensor_type.elem_type = FLOAT
    session = opgraft.InferenceSession(model, allow=[module])
    y, scan = session.run(None, {"x": np.float32([1]), "n": np.array(3)})
    assert y[0] == -2 * (-2 * (-2 * 1 + 1) + 1) + 1
    np.testing.assert_array_equal(scan, [[-2]] * 3)


def test_a_graph_that_a_call_hands_to_a_function(write_module: Write) -> None:
    """The function has no Python operator until the call passes one."""
    module = write_module(SCALE)
    model = parse(
        head()
        + f"""graph (float[n] x, bool c) => (float[n] y)
        {{ t = Neg(x)
           y = local.choose <branch = given () => (float[n] g)
                             {{ g = {pyop(module)}(t) }}> (c, x) }}"""
        + function(
            """choose <branch> (c, x) => (y)
            { t = Abs(x)
              y = If (c) <then_branch: graph = @branch,
                          else_branch = other () => (o) { o = Identity(t) }> }"""
        )
    )
    session = opgraft.InferenceSession(model, allow=[module])
    for c, expected in {True: -20, False: 2}.items():
        (y,) = session.run(None, {"x": np.float32([2]), "c": np.array(c)})
        assert y[0] == expected


def test_what_functions_declare_about_their_values(write_module: Write) -> None:
    """The symbol n stands for another number in each call."""
    module = write_module(SCALE)
    model = parse(
        head()
        + """graph (float[2] x, float[3] t) => (float[2] y, float[3] z, int64[1] s)
        { y = local.f(x)  z = local.f(t) q = local.g(x) s = Shape(q) }"""
        + function(f"f (a) => (b) {{ c = {pyop(module)}(a) b = Neg(c) }}")
        + function(f"g (a) => (b) {{ b = {pyop(module)}(a) }}")
    )
    for index, name in ((0, "c"), (1, "b")):
        info = helper.make_tensor_value_info(name, FLOAT, ["n"])
        model.functions[index].value_info.append(info)
    y, z, s = run(model, module, x=[1, 2], t=[1, 2, 3])
    assert (y.tolist(), z.tolist(), s.tolist()) == ([-10, -20], [-10, -20, -30], [2])
    prepared = onnx.load_from_string(opgraft.prepare(model).bytes)
    declared = {info.name: info.type.tensor_type for info in prepared.graph.value_info}
    assert set(declared) == {"f_1/c", "f_2/c", "q"}
    for tensor in declared.values():
        assert len(tensor.shape.dim) == 1
        assert not tensor.shape.dim[0].dim_param
    # The declarations of a function are checked like those of a graph.
    info = model.functions[0].value_info[0]
    info.CopyFrom(helper.make_tensor_value_info("c", FLOAT, [2]))
    with pytest.raises(opgraft.PyOpError, match="f_2"):
        run(model, module, x=[1, 2], t=[1, 2, 3])
    info.type.tensor_type.elem_type = onnx.TensorProto.INT32
    with pytest.raises(opgraft.ModelError, match="'f_1/c' is float32 .* but .* int32"):
        opgraft.prepare(model)


def test_functions_without_our_nodes_stay(write_module: Write) -> None:
    module = write_module(SCALE)
    model = parse(
        head()
        + "graph (float[n] x) => (float[n] y) { a = local.ours(x) y = local.theirs(a) }"
        + function(f"ours (x) => (y) {{ z = {pyop(module)}(x) y = local.theirs(z) }}")
        + function("theirs (x) => (y) { y = Neg(x) }")
    )
    prepared = onnx.load_from_string(opgraft.prepare(model).bytes)
    assert [stays.name for stays in prepared.functions] == ["theirs"]
    assert prepared.functions[0] == model.functions[1]
    assert run(model, module, x=[2])[0] == 20


def test_overloads(write_module: Write) -> None:
    module = write_module(SCALE)
    model = parse(
        head()
        + "graph (float[n] x) => (float[n] y) { a = local.f(x) y = local.f(a) }"
        + function(f"f (x) => (y) {{ y = {pyop(module)}(x) }}")
        + function(f"f (x) => (y) {{ z = {pyop(module, ', by = 7.0')}(x) y = Neg(z) }}")
    )
    model.functions[1].overload = model.graph.node[1].overload = "negative"
    assert run(model, module, x=[1])[0] == -70
    model.functions[1].overload = ""
    with pytest.raises(opgraft.ModelError, match="'local.f'.* two functions with that name"):
        opgraft.prepare(model)


def test_opsets(write_module: Write) -> None:
    """The opset of the function, of the model, and what a node of the function becomes."""
    module = write_module(SCALE)
    text = "graph (float[n] x) => (float[n] y) { y = local.f(x) }"

    def model(models: str, functions: str, operator: str) -> onnx.ModelProto:
        body = f"f (x) => (y) {{ z = {pyop(module)}(x) y = {operator}(z) }}"
        return parse(head(models) + text + function(body, functions))

    for functions in ('"": 21, "py": 1', '"": 22, "py": 1', '"": 26', '"py": 1'):
        given = model('"": 21, "local": 1', functions, "Neg")
        assert run(given, module, x=[2])[0] == -20, functions
    # The model has no ONNX operator, so it does not import ONNX's opset.
    assert run(model('"local": 1', '"": 21', "Neg"), module, x=[2])[0] == -20
    given = model('"": 21, "local": 1', '"": 21, "com.microsoft": 1', "com.microsoft.Gelu")
    assert run(given, module, x=[2])[0] == pytest.approx(20)
    with pytest.raises(opgraft.ModelError, match="'local.f'.* Swish of opset 24, .* opset 21, and"):
        opgraft.prepare(model('"": 21, "local": 1', '"": 24', "Swish"))
    with pytest.raises(opgraft.ModelError, match="Gelu of opset 1 of 'com.microsoft', .* opset 2"):
        imports = '"": 21, "local": 1, "com.microsoft": 2'
        opgraft.prepare(model(imports, '"com.microsoft": 1', "com.microsoft.Gelu"))


def test_functions_that_call_one_another_in_a_circle() -> None:
    graph = "graph (float[n] x) => (float[n] y) { y = local.f(x) }"
    circle = (
        function(f"f (x) => (y) {{ z = {pyop('m')}(x) y = local.g(z) }}")
        + function("g (x) => (y) { y = local.h(x) }")
        + function("h (x) => (y) { y = local.g(x) }")
    )
    message = r"call one another in a cycle: local\.g -> local\.h -> local\.g"
    with pytest.raises(opgraft.ModelError, match=message):
        opgraft.prepare(parse(head() + graph + circle))
    itself = function(f"f (x) => (y) {{ z = {pyop('m')}(x) y = local.f(z) }}")
    with pytest.raises(opgraft.ModelError, match=r"in a cycle: local\.f -> local\.f"):
        opgraft.prepare(parse(head() + graph + itself))


def test_functions_that_double_at_each_level() -> None:
    levels = "".join(
        function(f"f{i} (x) => (y) {{ z = local.f{i + 1}(x) y = local.f{i + 1}(z) }}")
        for i in range(40)
    )
    model = parse(
        head()
        + "graph (float[n] x) => (float[n] y) { y = local.f0(x) }"
        + levels
        + function(f"f40 (x) => (y) {{ y = {pyop('m')}(x) }}")
    )
    with pytest.raises(opgraft.ModelError, match="it has more than 1000000 nodes"):
        opgraft.prepare(model)


def test_functions_that_are_broken() -> None:
    graph = "graph (float[n] x, float[n] q) => (float[n] y) { y = local.f(x) }"
    for body, message in {
        f"f (x) => (y) {{ y = {pyop('m')}(q) }}": "uses 'q', which is neither an input of the",
        f"f (x) => (y) {{ z = {pyop('m')}(x) }}": "its output 'y' is not computed by any",
        f"f (x) => (y) {{ x = {pyop('m')}(x) y = Neg(x) }}": "computes 'x', which is an input",
        f"f () => (y) {{ y = {pyop('m')}() }}": "has 0 inputs and 1 outputs, but is called with 1",
        f"f (x, z) => (z, y) {{ y = {pyop('m')}(x) }}": "'z' is an input that is absent",
    }.items():
        with pytest.raises(opgraft.ModelError, match=f"the model, function 'local.f': .*{message}"):
            opgraft.prepare(parse(head() + graph + function(body)))
