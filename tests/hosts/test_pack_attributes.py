"""The attributes of operators written in C++, and their inputs that are constant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, helper
from pack_models import run_node

from conftest import VERSION, floats

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
STRING, BOOL = TensorProto.STRING, TensorProto.BOOL

ALL = {"f": 0.25, "i": -3, "s": "a\0b", "fs": [1.5], "is": [4, 5]}
TENSOR = helper.make_tensor("", INT64, [2], [8, 9])
ALL_TEXT = "0.25;-3;a\0b;[1.5];[4,5];type 7 shape [2] 8 9;"
DEFAULT_TEXT = "1.5;7;text;[0.5,-1];[1,2,3];type 1 shape [2,1] 8 9;"


def attribute_text(operator: str, *attributes: AttributeProto, **simple: Any) -> str:
    (y,) = run_node(operator, outputs=[STRING], attributes=attributes, **simple)
    return str(y.item())


def empty(name: str, kind: int) -> AttributeProto:
    return AttributeProto(name=name, type=kind)


def test_attributes() -> None:
    for operator in ("Defaults", "Required", "Optional"):
        assert attribute_text(operator, t=TENSOR, **ALL) == ALL_TEXT
    assert attribute_text("Defaults") == DEFAULT_TEXT
    assert attribute_text("Optional") == "none;none;none;none;none;none;"


def test_whole_numbers_for_others() -> None:
    assert attribute_text("Optional", f=2, fs=[1, 2]).startswith("2;none;none;[1,2];")


def test_empty_lists() -> None:
    lists = [empty("fs", AttributeProto.FLOATS), empty("is", AttributeProto.INTS)]
    assert attribute_text("Defaults", *lists) == "1.5;7;text;[];[];type 1 shape [2,1] 8 9;"
    assert attribute_text("Defaults", s="").startswith("1.5;7;;")


@pytest.mark.parametrize("missing", [*ALL, "t"])
def test_a_missing_attribute(missing: str) -> None:
    given = {**ALL, "t": TENSOR}
    del given[missing]
    text = f"node 'the node', operator test.pack::Required: attribute '{missing}' is missing"
    with pytest.raises(Exception, match=text):
        attribute_text("Required", **given)


@pytest.mark.parametrize(
    ("name", "value", "came", "expected"),
    [
        ("f", "text", "STRING", "FLOAT"),
        ("i", 1.5, "FLOAT", "INT"),
        ("i", [1], "INTS", "INT"),
        ("s", 1, "INT", "STRING"),
        ("fs", 1.5, "FLOAT", "FLOATS"),
        ("is", [1.5], "FLOATS", "INTS"),
        ("is", "text", "STRING", "INTS"),
        ("t", 1, "INT", "TENSOR"),
        ("f", TENSOR, "TENSOR", "FLOAT"),
        ("is", TENSOR, "TENSOR", "INTS"),
        ("f", helper.make_graph([], "g", [], []), "of a kind that", "FLOAT"),
    ],
)
def test_an_attribute_of_another_kind(name: str, value: Any, came: str, expected: str) -> None:
    for operator in ("Defaults", "Optional"):
        text = (
            f"node 'the node', operator test.pack::{operator}: "
            f"attribute '{name}' is {came}.*, expected {expected}$"
        )
        with pytest.raises(Exception, match=text):
            attribute_text(operator, **{name: value})


def test_lists_of_strings() -> None:
    assert attribute_text("Texts") == "[a,b];none;"
    if VERSION < (1, 25):
        with pytest.raises(Exception, match="'ss' is a list of strings, which ONNX Runtime before"):
            attribute_text("Texts", ss=["x"])
        return
    assert attribute_text("Texts", ss=["x", "", "z"], more=["y"]) == "[x,,z];[y];"
    assert attribute_text("Texts", empty("ss", AttributeProto.STRINGS)) == "[];none;"
    with pytest.raises(Exception, match="'ss' is INTS, expected STRINGS"):
        attribute_text("Texts", ss=[1])


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (helper.make_tensor("", FLOAT, [], [1.5]), "type 1 shape [] 1.5"),
        (helper.make_tensor("", FLOAT, [2, 0], []), "type 1 shape [2,0]"),
        (helper.make_tensor("", TensorProto.FLOAT16, [2], [1.5, 2]), "type 10 shape [2] 1.5 2"),
        (helper.make_tensor("", STRING, [2], [b"ab", b""]), "type 8 shape [2] ab "),
    ],
)
def test_tensors_as_attributes(tensor: TensorProto, text: str) -> None:
    assert attribute_text("Optional", t=tensor) == f"none;none;none;none;none;{text};"


def test_what_a_kernel_may_ask_when_it_is_made() -> None:
    (y,) = run_node("Asking", floats(1), outputs=[STRING])
    assert y.item() == "the node;nothing;1;1;1;0;none"
    (y,) = run_node("Asking", floats(1), floats(1), outputs=[STRING], ratio=0.5, name="n")
    assert y.item() == "n;nothing;2;1;1;1;ratio"
    for ask, text in (
        ("undeclared", "no attribute 'nobody' is declared"),
        ("kind", "'ask' has no value of the kind"),
        ("none", "'ratio' has no value of the kind"),
    ):
        with pytest.raises(
            Exception, match=f"node 'the node', operator test.pack::Asking: .*{text}"
        ):
            run_node("Asking", floats(1), outputs=[STRING], ask=ask)


@pytest.mark.parametrize("is_constant", [True, False])
def test_inputs_that_are_constant(is_constant: bool) -> None:
    constant = [1] if is_constant else []
    table = np.float32([3, 1, 2])
    for x, sorted_table in (
        (np.float32([2, 9]), table),
        (np.array(["2", "9"], object), table.astype(int).astype(str).astype(object)),
    ):
        rank, flag = run_node("Rank", x, sorted_table, outputs=[INT64, BOOL], constant=constant)
        assert (rank.tolist(), flag.item()) == ([1, 3], is_constant)


def test_a_constant_of_another_type_than_asked_for() -> None:
    with pytest.raises(Exception, match="constant input 0 is float32, expected float64"):
        run_node("WrongConstant", floats(1), constant=[0])
    run_node("WrongConstant", floats(1))
