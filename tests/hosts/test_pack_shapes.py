"""The shape rules of operators written in C++: in each run, and in ONNX Runtime's own inference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pack_models import node_model, open_session, pack_model, run_graph, run_node

from conftest import VERSION, floats


def shape_of(operator: str, *inputs: Any, **options: Any) -> tuple[int, ...]:
    """Returns the shape of the output; checks the elements, which the kernel numbers."""
    (y,) = run_node(operator, *inputs, **options)
    np.testing.assert_array_equal(y, floats(*y.shape))
    return tuple(y.shape)


def inferred(graph: str) -> list[Any]:
    """Returns the shapes of the outputs in a session of a model that does not declare them."""
    return [value.shape for value in open_session(pack_model(graph)).get_outputs()]


def test_the_same() -> None:
    for shape in ((), (0,), (2, 3), (1, 2, 0, 3)):
        assert shape_of("ShapeSame", floats(*shape)) == shape


def test_broadcast() -> None:
    for a, b, expected in (
        ((2, 3), (3,), (2, 3)),
        ((2, 1), (1, 3), (2, 3)),
        ((), (4,), (4,)),
        ((), (), ()),
        ((0, 1), (5,), (0, 5)),
    ):
        assert shape_of("ShapeBroadcast", floats(*a), floats(*b), floats(9, 9)) == expected
    with pytest.raises(Exception, match=r"node 'the node', operator test.pack::ShapeBroadcast: "
                                        r"the shapes \[2, 3\] and \[2\] cannot be broadcast: "
                                        r"3 and 2 are different"):  # fmt: skip
        shape_of("ShapeBroadcast", floats(2, 3), floats(2), floats(1))


def test_matrix_product() -> None:
    for a, b, expected in (
        ((2, 3), (3, 4), (2, 4)),
        ((3,), (3, 4), (4,)),
        ((2, 3), (3,), (2,)),
        ((3,), (3,), ()),
        ((5, 1, 2, 3), (7, 3, 4), (5, 7, 2, 4)),
    ):
        assert shape_of("ShapeProduct", floats(*a), floats(*b)) == expected
    with pytest.raises(Exception, match=r"ShapeProduct: the matrices \[2, 3\] and \[4, 5\] cannot"):
        shape_of("ShapeProduct", floats(2, 3), floats(4, 5))
    with pytest.raises(Exception, match="ShapeProduct: a matrix product cannot take a scalar"):
        shape_of("ShapeProduct", floats(), floats(4, 5))


def test_from_an_attribute() -> None:
    assert shape_of("ShapeAttribute") == (2, 3)
    assert shape_of("ShapeAttribute", sizes=[4, 0, 1]) == (4, 0, 1)
    with pytest.raises(Exception, match="'sizes' gives the size -1"):
        shape_of("ShapeAttribute", sizes=[2, -1])


@pytest.mark.parametrize("constant", [[0], []])
def test_from_a_constant(constant: list[int]) -> None:
    assert shape_of("ShapeConstant", np.int64([3, 1]), constant=constant) == (3, 1)
    assert shape_of("ShapeConstant", np.int64([]), constant=constant) == ()
    with pytest.raises(Exception, match="'sizes' gives the size -7"):
        shape_of("ShapeConstant", np.int64([-7]), constant=constant)


def test_combinations() -> None:
    assert shape_of("ShapeWithout", floats(2, 3)) == (2,)
    assert shape_of("ShapeWithout", floats(2)) == ()
    assert shape_of("ShapeConcat", floats(2, 3), floats(2, 4)) == (2, 7)
    assert shape_of("ShapeOuter", floats(2, 3), floats(4, 5)) == (2, 5)
    assert shape_of("ShapeSizes", floats(2, 8)) == (4, 5, 3, 1)
    assert shape_of("ShapeSizes", floats(0, 1), k=0) == (0, 0, 0, 1)
    assert shape_of("ShapeScalar", floats(2, 3)) == ()
    with pytest.raises(Exception, match="ShapeWithout: there is no axis -1 in a shape of rank 0"):
        shape_of("ShapeWithout", floats())
    with pytest.raises(Exception, match=r"ShapeOuter: expected a rank of at least 1, .* \[\]"):
        shape_of("ShapeOuter", floats(2), floats())
    with pytest.raises(Exception, match="ShapeSizes: a size would be -1"):
        shape_of("ShapeSizes", floats(2, 0))


def test_a_rule_that_needs_an_absent_input() -> None:
    assert shape_of("ShapeOptional", floats(2)) == (2,)
    y, z = run_node("ShapeOptional", floats(2), floats(3), outputs=[1, 1])
    assert (y.shape, z.shape) == ((2,), (3,))
    with pytest.raises(Exception, match="the shape rule gives no shape to output 'z'"):
        run_node("ShapeOptional", floats(2), outputs=[1, 1])


def test_a_function() -> None:
    assert shape_of("ShapeFunction", floats(5, 2)) == (5, 4, 2)
    given = {"mode": "valid", "width": 2, "steps": [3], "ratio": 1.5}
    assert shape_of("ShapeFunction", floats(5, 2), **given) == (4, 3, 1)
    with pytest.raises(Exception, match="ShapeFunction: expected a matrix, its rank is 1"):
        shape_of("ShapeFunction", floats(5))


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("exception", "it threw a C++ exception: the rule is out of order"),
        ("int", "it threw an object that is not a std::exception"),
        ("beyond", "the shape rule sets output 5, but the operator has 1"),
        ("undeclared", "no attribute 'nobody' is declared"),
        ("negative", "a size would be -2"),
        ("nothing", "the shape rule gives no shape to output 'y'"),
        ("unknown", "whose sizes are not all known"),
        ("large", "is more than memory can hold"),
    ],
)
def test_rules_that_go_wrong(how: str, text: str) -> None:
    session = open_session(node_model("ShapeThrows", [floats(2)], how=how))
    with pytest.raises(Exception) as raised:
        session.run(None, {"x0": floats(2)})
    assert "node 'the node', operator test.pack::ShapeThrows: " in str(raised.value)
    assert text in str(raised.value)


def test_an_empty_tensor_of_large_sizes() -> None:
    """Whether or not the runtime accepts it, it does not crash."""
    try:
        (y,) = run_node("ShapeThrows", floats(2), how="zero")
    except Exception as error:
        assert "ShapeThrows" in str(error)
    else:
        assert y.size == 0


# In ONNX Runtime's inference


def test_symbols_arrive() -> None:
    def one(operator: str, inputs: str, call: str) -> Any:
        return inferred(f"({inputs}) => (y) {{ y = test.pack.{operator}{call} }}")[0]

    assert one("ShapeSame", "float[n, 3] x", "(x)") == ["n", 3]
    assert one("ShapeWithout", "float[n, m, 3] x", "(x)") == ["n", "m"]
    assert one("ShapeConcat", "float[n, 3] a, float[n, 4] b", "(a, b)") == ["n", 7]
    assert one("ShapeConcat", "float[n, p] a, float[n, q] b", "(a, b)") == ["n", "p + q"]
    assert one("ShapeOuter", "float[n, 3] a, float[k, m] b", "(a, b)") == ["n", "m"]
    assert one("ShapeSizes", "float[n, m] x", "<k = 6>(x)") == ["2*n", 6, "(m - 1)//2", 1]
    assert one("ShapeProduct", "float[b, n, k] a, float[k, m] b", "(a, b)") == ["b", "n", "m"]
    assert one("ShapeAttribute", "", "<sizes = [7, 8]>()") == [7, 8]
    assert one("ShapeAttribute", "", "()") == [2, 3]
    assert one("ShapeFunction", "float[n, m] x", '<mode = "valid", width = 3>(x)') == [
        "n - 2",
        4,
        2,
    ]
    assert one("ShapeFunction", "float[n, m] x", "<ratio = 3>(x)") == ["n", 4, 3]
    broadcast = one("ShapeBroadcast", "float[n, 1] a, float[3] b, float[9] c", "(a, b, c)")
    assert broadcast == ["n", 3]
    known, open_one = one("ShapeBroadcast", "float[n, 2] a, float[m, 1] b, float c", "(a, b, c)")[
        ::-1
    ]
    assert known == 2
    assert open_one not in ("n", "m")


def test_a_name_that_is_the_text_of_a_quotient() -> None:
    """A computed size is not mistaken for a size of the model with the same text."""
    model = pack_model("(float[n, m] x) => (y) { y = test.pack.ShapeSizes<k = 6>(x) }")
    first = model.graph.input[0].type.tensor_type.shape.dim[0]
    first.dim_param = "(m - 1)//2"
    twice, _, computed, _ = open_session(model).get_outputs()[0].shape
    assert twice == "2*((m - 1)//2)" and computed != first.dim_param


def test_the_rank_of_what_a_constant_will_tell() -> None:
    (shape,) = inferred("(int64[2] sizes) => (y) { y = test.pack.ShapeConstant(sizes) }")
    assert len(shape) == 2
    assert all(isinstance(size, str) for size in shape)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_ranks_in_the_nodes_that_follow(rank: int) -> None:
    """A scalar's shape and an unknown shape must not be confused."""
    x = floats(*[2] * rank)
    (shape,) = run_graph(
        "(float x) => (int64[k] s) { y = test.pack.ShapeSame(x)  s = Shape(y) }".replace(
            "float x", f"float[{', '.join('abc'[:rank])}] x" if rank else "float x"
        ),
        x,
    )
    assert shape.tolist() == [2] * rank


def test_unknown_ranks_in_the_nodes_that_follow() -> None:
    x = floats(2, 3)
    session = open_session(node_model("ShapeSame", [x]))
    assert session.run(None, {"x0": x})[0].shape == (2, 3)
    (shape,) = run_graph(
        """(int64[n] sizes) => (int64[k] s) {
            x = test.pack.ShapeConstant(sizes)  y = test.pack.ShapeSame(x)  s = Shape(y) }""",
        np.int64([4, 5, 6]),
    )
    assert shape.tolist() == [4, 5, 6]


def test_scalars_in_the_nodes_that_follow() -> None:
    scalar, vector = run_graph(
        """(float[n] x) => (int64[k] s, int64[j] t) {
            y = test.pack.ShapeScalar(x)  s = Shape(y)  z = Add(y, x)  t = Shape(z) }""",
        floats(3),
    )
    assert (scalar.tolist(), vector.tolist()) == ([], [3])


def test_a_chain_whose_symbols_would_grow_without_end() -> None:
    nodes = " ".join(f"x{i + 1} = test.pack.ShapeGrowing(x{i})" for i in range(60))
    (y,) = run_graph(f"(float[n] x0) => (float[m] x60) {{ {nodes} }}", floats(3))
    assert y.shape == (3,)


@pytest.mark.skipif(
    VERSION < (1, 28), reason="this ONNX Runtime infers shapes only if everything is required"
)
def test_rules_beside_what_is_left_out() -> None:
    assert inferred("(float[n] x, float[m] h) => (y) { y = test.pack.Clip(x, , h) }") == [["n"]]
    graph = "(float[n] x) => (a, c) { a, b, c = test.pack.Repeat(x) }"
    assert inferred(graph)[0] == ["n"]


def test_what_is_left_out_ends_no_process() -> None:
    for graph in (
        "(float[n] x, float[m] h) => (float[n] y) { y = test.pack.Clip(x, , h) }",
        "(float[n] x) => (float[n] y) { y = test.pack.Clip(x) }",
        "(float[n] x) => (float[n] y) { y = test.pack.Repeat(x) }",
        "(float[n] x) => (float y, int64 w) { y, w = test.pack.Extremes(x) }",
        "(float[n] x) => (float y, int64 w, float z) { y, w, , z = test.pack.Extremes(x) }",
    ):
        open_session(pack_model(graph))
