"""How @opgraft.op reads a signature and a shape rule."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Optional, TypeVar

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import pytest

import opgraft
from opgraft._declare import _declare
from opgraft._declare._shapes import Rule, Symbol, Undecided

Real = TypeVar("Real", np.float32, np.float64)
Integer = TypeVar("Integer", bound=np.signedinteger)
Array = TypeVar("Array", npt.NDArray[np.float32], npt.NDArray[np.float16])
FLOAT, DOUBLE, INT64, STRING = 1, 11, 7, 8


def declared(implementation: Any, **options: Any) -> _declare.Operator:
    opgraft.op("test::Declared", **options)(implementation)
    return _declare.find("test::Declared")


def types(implementation: Any) -> tuple[list[Any], list[Any]]:
    """Returns the allowed types of each input and output; a letter for types tied together."""
    schema = declared(implementation).schema
    return (
        [schema.types[one.type].allowed for one in schema.inputs],
        [schema.types[one.type].allowed for one in schema.outputs],
    )


# Signatures.


def test_arrays() -> None:
    def bare(x: np.ndarray, y) -> np.ndarray: ...
    def one(x: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]: ...
    def tied(x: npt.NDArray[Real], y: npt.NDArray[Real]) -> npt.NDArray[Real]: ...
    def bound(x: npt.NDArray[Integer]) -> npt.NDArray[Integer]: ...
    def whole(x: Array) -> Array: ...
    def any_of(x: npt.NDArray[Any]) -> npt.NDArray[Any]: ...
    def union(x: npt.NDArray[np.float32 | np.float64]) -> npt.NDArray[np.int64]: ...
    def old(x: npt.NDArray[np.int8 | np.uint8]) -> npt.NDArray[np.int64]: ...
    def abstract(x: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]: ...
    def texts(x: npt.NDArray[np.str_]) -> npt.NDArray[np.object_]: ...
    def brain(x: npt.NDArray[ml_dtypes.bfloat16]) -> npt.NDArray[ml_dtypes.int4]: ...

    assert types(bare) == ([[], []], [[]])
    assert types(one) == ([[INT64]], [[9]])
    assert types(tied) == ([[FLOAT, DOUBLE]] * 2, [[FLOAT, DOUBLE]])
    assert types(bound) == ([[3, 5, 6, 7]], [[3, 5, 6, 7]])
    assert types(whole) == ([[FLOAT, 10]], [[FLOAT, 10]])
    assert types(any_of) == ([[]], [[]])
    assert types(union) == ([[FLOAT, DOUBLE]], [[INT64]])
    assert types(old) == ([[3, 2]], [[INT64]])
    assert types(abstract) == ([[FLOAT, 10, DOUBLE]], [[INT64]])
    assert types(texts) == ([[STRING]], [[STRING]])
    assert types(brain) == ([[16]], [[22]])
    schema = declared(tied).schema
    assert len({one.type for one in (*schema.inputs, *schema.outputs)}) == 1
    schema = declared(bare).schema
    assert schema.inputs[0].type == schema.outputs[0].type != schema.inputs[1].type


def test_optional_and_variadic_inputs_and_outputs() -> None:
    def optional(
        x: np.ndarray,
        y: np.ndarray | None = None,
        z: Optional[npt.NDArray[np.int64]] = None,  # noqa: UP045
    ) -> None: ...
    def variadic(x: np.ndarray, *xs: npt.NDArray[np.float32]) -> tuple[np.ndarray, ...]: ...
    def nothing() -> npt.NDArray[np.float32]: ...
    def several(x: np.ndarray) -> tuple[np.ndarray, npt.NDArray[np.int64]]: ...

    schema = declared(optional).schema
    assert [one.occurrence for one in schema.inputs] == [0, 1, 1] and not schema.outputs
    schema = declared(variadic).schema
    assert [one.occurrence for one in schema.inputs] == [0, 2]
    assert [one.occurrence for one in schema.outputs] == [2]
    assert declared(nothing).schema.inputs == []
    assert len(declared(several).schema.outputs) == 2


def test_static_and_class_methods() -> None:
    class Static:
        @staticmethod
        def compute(x: np.ndarray, y: np.ndarray) -> np.ndarray: ...

    class OfClass:
        @classmethod
        def compute(cls, x: np.ndarray, y: np.ndarray) -> np.ndarray: ...

    for implementation in (Static, OfClass):
        assert [one.name for one in declared(implementation).schema.inputs] == ["x", "y"]


def test_a_union_of_arrays() -> None:
    def union(x: npt.NDArray[np.float32] | npt.NDArray[np.float64]) -> npt.NDArray[np.int64]: ...

    assert types(union) == ([[FLOAT, DOUBLE]], [[INT64]])


def test_defaults_of_every_kind_are_known_to_onnx() -> None:
    def defaults(
        x: np.ndarray,
        *,
        flags: list[bool] = [True, False],  # noqa: B006
        numbers: tuple[float, ...] = (1, 2.5),
        infinite: float = float("inf"),
        texts: list[bytes] = [b"\xff"],  # noqa: B006
        array: np.ndarray = np.array(["a", "b"]),  # noqa: B008
    ) -> np.ndarray: ...

    declared(defaults)
    attributes = onnx.defs.get_schema("Declared", 1, "test").attributes
    assert list(attributes["flags"].default_value.ints) == [1, 0]
    assert list(attributes["numbers"].default_value.floats) == [1, 2.5]
    assert list(attributes["texts"].default_value.strings) == [b"\xff"]
    assert list(attributes["array"].default_value.t.string_data) == [b"a", b"b"]


def test_the_schema_holds_defaults_as_models_do() -> None:
    def defaults(
        x: np.ndarray,
        *,
        epsilon: float = 1e-5,
        flag: bool = True,
        flags: tuple[bool, ...] = (True, False),
        text: str = "\u00e4",
        names: list[bytes] = [b"\xff", b""],  # noqa: B006
        none: int | None = None,
        given: int,
        brain: np.ndarray = np.array([1.5], ml_dtypes.bfloat16),  # noqa: B008
        big: np.ndarray = np.array([[1, 2]], ">i4"),  # noqa: B008
        texts: np.ndarray = np.array(["a"]),  # noqa: B008
    ) -> None:
        """For this."""

    schema = declared(defaults, torch="aten::relu").schema
    assert (schema.documentation, schema.torch_name) == ("For this.", "aten::relu")
    found = {one.name: one.default for one in schema.attributes}
    assert found["epsilon"] == 1e-5  # not rounded to a float32
    assert (found["flag"], found["flags"]) == (1, [1, 0])
    assert (found["text"], found["names"]) == (b"\xc3\xa4", [b"\xff", b""])
    assert found["none"] is found["given"] is None
    assert [one.name for one in schema.attributes if one.is_required] == ["given"]
    assert [one.name for one in schema.attributes if one.is_bool] == ["flag", "flags"]
    assert found["brain"].dtype == ml_dtypes.bfloat16 and found["brain"].tolist() == [1.5]
    assert found["big"].tolist() == [[1, 2]] and found["texts"].tolist() == ["a"]


def test_the_schema_tells_the_type_of_an_output() -> None:
    def several(
        x: npt.NDArray[Real], y: npt.NDArray[Integer], *more: npt.NDArray[Integer]
    ) -> tuple[npt.NDArray[Integer], npt.NDArray[Real], npt.NDArray[np.bool_]]: ...

    schema = declared(several).schema
    assert [schema.output_type(index, [DOUBLE, 6]) for index in range(3)] == [6, DOUBLE, 9]
    assert (
        schema.output_type(0, [DOUBLE, 0, 0, INT64]) == INT64
    )  # the type of the first input that is present
    origin = schema.output_type_origin(0, [True, False, True])
    assert (origin.fixed, origin.input) == (0, 2)


def local_annotations() -> Any:
    Local = TypeVar("Local", np.int8, np.int16)

    @opgraft.op("test::Declared")
    def local(x: npt.NDArray[Local]) -> npt.NDArray[Local]: ...

    return _declare.find("test::Declared").schema.types


def test_annotations_may_name_what_is_local() -> None:
    local = local_annotations()[0]
    assert local.allowed == [3, 5] and local.is_tied


def refused_cases() -> list[tuple[Callable[..., Any], str]]:
    def number(x: int) -> np.ndarray: ...
    def default(x: np.ndarray, axis=0) -> np.ndarray: ...
    def listed(x: list[int]) -> np.ndarray: ...
    def optional_without(x: np.ndarray | None) -> np.ndarray: ...
    def keywords(x: np.ndarray, **more: int) -> np.ndarray: ...
    def both(x: np.ndarray | None = None, *xs: np.ndarray) -> np.ndarray: ...
    def no_input() -> np.ndarray: ...
    def unknown_type(x: np.ndarray) -> npt.NDArray[Real]: ...
    def several_types(x: np.ndarray) -> npt.NDArray[np.float32 | np.float64]: ...
    def complexes(x: npt.NDArray[np.complex64]) -> np.ndarray: ...
    def times(x: npt.NDArray[np.datetime64]) -> np.ndarray: ...
    def bare_tuple(x: np.ndarray) -> tuple: ...  # type: ignore[type-arg]
    def returns_list(x: np.ndarray) -> list[np.ndarray]: ...
    def attribute(x: np.ndarray, *, a: dict[str, int]) -> np.ndarray: ...
    def bare_attribute(x: np.ndarray, *, a) -> np.ndarray: ...
    def none_attribute(x: np.ndarray, *, a: int | None) -> np.ndarray: ...
    def unreadable(x: NoSuchName) -> np.ndarray: ...  # type: ignore[name-defined] # noqa: F821
    def out(x: np.ndarray, *, out: np.ndarray) -> np.ndarray: ...
    async def coroutine(x: np.ndarray) -> np.ndarray: ...
    def half(x: np.ndarray, *, a: int = 1.5) -> np.ndarray: ...  # type: ignore[assignment]
    def large(x: np.ndarray, *, a: int = 2**63) -> np.ndarray: ...
    def huge(x: np.ndarray, *, a: float = 1e60) -> np.ndarray: ...
    def text(x: np.ndarray, *, a: str = b"x") -> np.ndarray: ...  # type: ignore[assignment]
    def surrogate(x: np.ndarray, *, a: str = "\ud800") -> np.ndarray: ...
    def mixed(x: np.ndarray, *, a: list[int] = [1, 2.5]) -> np.ndarray: ...  # type: ignore # noqa: B006
    def no_array(x: np.ndarray, *, a: np.ndarray = [1]) -> np.ndarray: ...  # type: ignore # noqa: B006

    class NoCompute: ...

    class Keywords:
        def compute(self, x: np.ndarray, *, a: int) -> np.ndarray: ...

    class Anything:
        def __init__(self, **more: int) -> None: ...
        def compute(self, x: np.ndarray) -> np.ndarray: ...

    return [
        (number, "input 'x' is annotated as int.*write it after a '\\*'"),
        (default, "input 'axis' has the default 0.*keyword-only"),
        (listed, r"input 'x' is annotated as list\[int\], expected numpy.ndarray"),
        (optional_without, "input 'x' is optional, so it must have the default None"),
        (keywords, "'\\*\\*more' takes attributes of any name"),
        (both, "optional inputs and variadic ones"),
        (no_input, "output 'y' is a bare numpy.ndarray.*there is no input"),
        (unknown_type, "output 'y' is annotated as .*Real.*a TypeVar that an input has as well"),
        (several_types, "does not say which type it has"),
        (complexes, "input 'x' is an array of complex64, which ONNX Runtime does not support"),
        (times, "input 'x' is an array of datetime64"),
        (bare_tuple, "returns a tuple; name its items"),
        (returns_list, "output 'y' is annotated as list"),
        (attribute, "attribute 'a' is annotated as dict.*expected int, float, bool"),
        (bare_attribute, "attribute 'a' has no annotation"),
        (none_attribute, "attribute 'a' may be None, so it must have the default None"),
        (unreadable, "its annotations cannot be read: name 'NoSuchName' is not defined"),
        (out, "it takes 'out', which needs a shape rule"),
        (np.sin, "ufunc 'sin'.* is not a Python function .* wrap it"),
        (functools.partial(number), "is not a Python function .* wrap it"),
        (coroutine, "it is a coroutine or a generator"),
        (half, "attribute 'a' is annotated as int, but its default is 1.5"),
        (large, "but its default is 9223372036854775808"),
        (huge, "but its default is 1e\\+60"),
        (text, "annotated as str, but its default is b'x'"),
        (surrogate, "but its default is"),
        (mixed, r"annotated as list\[int\], but its default is \[1, 2.5\]"),
        (no_array, r"annotated as ndarray, but its default is \[1\]"),
        (NoCompute, "the class NoCompute has no method 'compute'"),
        (Keywords, "'a' is a keyword-only parameter of compute"),
        (Anything, "of __init__ takes anything; name each attribute"),
    ]


@pytest.mark.parametrize(
    ("implementation", "message"), refused_cases(), ids=lambda case: getattr(case, "__name__", "")
)
def test_a_signature_that_cannot_be_a_schema(
    implementation: Callable[..., Any], message: str
) -> None:
    with pytest.raises(opgraft.Error, match=f"test::Refused.*{message}"):
        opgraft.op("test::Refused")(implementation)
    assert "test::Refused" not in [one.full_name for one in _declare.operators()]


@pytest.mark.parametrize("name", ["Name", "domain:Name", "a::b::c", "my domain::X", "d::", 5, None])
def test_a_name_that_is_none(name: Any) -> None:
    with pytest.raises(opgraft.Error, match="expected the operator's name as 'domain::Name'"):
        opgraft.op(name)


def test_a_shape_rule_that_is_no_function() -> None:
    with pytest.raises(opgraft.Error, match="expected shape to be a function"):
        opgraft.op("test::Refused", shape=(1, 2))  # type: ignore[arg-type]


def test_the_name_of_the_nodes_that_name_a_class() -> None:
    with pytest.raises(opgraft.Error, match="PyOp nodes name the class that they run"):
        opgraft.op("test::PyOp")


def test_the_domain_that_is_ours() -> None:
    with pytest.raises(opgraft.Error, match="the domain ai.opgraft is Opgraft's own"):
        opgraft.op("ai.opgraft::PyOp")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda: (), "must take 2 shapes"),
        (lambda x: x, "must take 2 shapes"),
        (lambda x, y, z: x, "must take 2 shapes"),
        (lambda x, y, *, k: x, "its shape rule takes 'k', which is not one of its attributes"),
    ],
)
def test_a_rule_that_does_not_fit_the_signature(rule: Any, message: str) -> None:
    def operator(x: np.ndarray, y: np.ndarray, *, axis: int = 0) -> np.ndarray: ...

    with pytest.raises(opgraft.Error, match=message):
        opgraft.op("test::Refused", shape=rule)(operator)


# Shape rules.


def test_symbols() -> None:
    n, m = Symbol.named("n"), Symbol.named("m")
    assert repr(n + m) == repr(m + n) == "m + n"
    assert repr(2 * n + 1 - m) == "-m + 2*n + 1" and repr(-2 * n * n) == "-2*n*n"
    assert n + 1 - n == 1 and n - n == 0 and isinstance(n - n, int)
    assert n * m == m * n and (n + 1) * 2 == 2 * n + 2
    assert (2 * n) // 2 == n and (2 * n) % 2 == 0 and repr(n // 2) == "n//2"
    assert repr(5 // n) == "5//n" and repr(5 % n) == "5%n" and repr(3 - n) == "-n + 3"
    assert n + 1 > n and n <= n and n != n + 1 and n >= n - 2 and n < n + 3
    for question in (
        lambda: n == m,
        lambda: n > 3,
        lambda: bool(n),
        lambda: range(n),
        lambda: int(n),
    ):
        with pytest.raises(Undecided):
            question()


def infer(rule: Any, *shapes: Any, inputs: int | None = None, outputs: int = 1) -> Any:
    made = Rule(rule, "test::Rule", [], len(shapes) if inputs is None else inputs, outputs)
    inferred = made.infer(shapes, {}, outputs)
    return inferred[0] if outputs == 1 else inferred


def test_rules_on_symbols() -> None:
    assert infer(lambda x: x, ("n", 3, None)) == ["n", 3, None]
    assert infer(lambda x: (2 * x[0], x[1] + 1, 7), ("n", 3)) == ["2*n", 4, 7]
    assert infer(lambda x: x[:-1], ("n", 3)) == ["n"]
    assert infer(lambda x: (x[0] + x[1],), (None, "n")) == [None]
    assert infer(lambda x: (), ("n",)) == []
    # Only sizes that depend on unknown ones are left open.
    assert infer(lambda x: x, ...) is None
    assert infer(lambda x: (x[0], 2), ...) is None
    assert infer(lambda x: (2, 3), ...) == [2, 3]
    assert infer(lambda x: (1,) if x[0] > 5 else (2,), ("n",)) is None
    assert (
        infer(lambda x: (x[0] ** 2, 1), ("n",)) is None
    )  # an operation that symbols do not support
    assert infer(lambda x: (None, x[0]), ("n",)) == [None, "n"]
    for rule in (
        lambda x: (1, *x),
        lambda x: (1,) + x,  # noqa: RUF005
        lambda x: 2 * x,
        lambda x: sum((x, x), ()),
        lambda x: (x.count(1),),
        lambda x: (1,) if x < (2,) else (2,),
        lambda x: (len(x),),
    ):
        assert infer(rule, ...) is None
    assert infer(lambda x: (1,) if x[0] == np.int64(1) else (2,), ("n",)) is None
    assert infer(lambda x: (1,) if x[0] == 1.0 else (2,), ("n",)) is None
    assert infer(lambda x: (x[0] + np.int64(1), x[0] // np.int32(2)), ("n",)) == [
        "n + 1",
        "n//2",
    ]
    assert infer(lambda x: (x[0] // x[1],), ("n", "m")) == ["n//m"]
    assert infer(lambda x: (abs(x[0]),), ("n",)) is None
    # A sum is not mistaken for a size of the model with the same text.
    assert infer(lambda x, y: (x[0] + 1, y[0]), ("n",), ("n + 1",)) == [None, "n + 1"]
    assert infer(lambda x, y: (x[0] // 2, y[0]), ("n",), ("n//2",)) == [None, "n//2"]
    # A result that differs for numbers is not used.
    assert infer(lambda x: (8 if isinstance(x[0], int) else 1,), ("n",)) is None
    assert infer(lambda x: x if isinstance(x[0], int) else (*x, 1), ("n", 2)) is None
    assert infer(lambda x, y: (x, y, (1,)), ("n",), ..., outputs=3) == [["n"], None, [1]]
    assert infer(lambda x, y: x if y is None else y, ("n",), inputs=2) == ["n"]
    assert infer(lambda *xs: (sum(x[0] for x in xs),), ("n",), ("m",), (2,)) == ["m + n + 2"]


def test_broadcasting() -> None:
    assert infer(opgraft.broadcast_shapes, ("n", 1), (3,)) == ["n", 3]
    assert infer(opgraft.broadcast_shapes, ("n",), ("n",)) == ["n"]
    assert infer(opgraft.broadcast_shapes, ("n", 1), ("n", "m")) == ["n", "m"]
    assert infer(opgraft.broadcast_shapes, ("n",), (4,)) == [4]  # 4, since it is not 1
    assert infer(opgraft.broadcast_shapes, (4,), ("n",)) == [4]
    assert infer(opgraft.broadcast_shapes, ("n",), ("m",)) is None  # either may be 1
    assert infer(opgraft.broadcast_shapes, ("n",), ...) is None
    assert infer(lambda x: opgraft.broadcast_shapes(x, (x[0] + 1,)), ("n",)) is None
    assert opgraft.broadcast_shapes((5, 1), None, (1, 6), ()) == (5, 6)
    with pytest.raises(ValueError, match="cannot be broadcast"):
        opgraft.broadcast_shapes((2,), (3,))


@pytest.mark.parametrize("returned", [5, "n", [1.5], [-1], [True], ["n"], object()])
def test_a_rule_that_returns_no_shape(returned: Any) -> None:
    made = Rule(lambda x: returned, "test::Rule", [], 1, 1)
    with pytest.raises(opgraft.Error, match="the shape rule of test::Rule must return a shape"):
        made.apply([(1,)], {}, 1)


def test_a_rule_that_returns_too_few_shapes() -> None:
    with pytest.raises(opgraft.Error, match="must return 2 shapes, one for each output"):
        Rule(lambda x: (x,), "test::Rule", [], 1, 2).apply([(1,)], {}, 2)
