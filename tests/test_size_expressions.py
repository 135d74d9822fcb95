"""Expressions of sizes: written and read back, they give what Python computes."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import pytest

from opgraft import _pyop
from opgraft._declare._shapes import Rule

OPERATIONS: dict[str, tuple[Callable[[int, int], int], Callable[..., _pyop.SizeExpression]]] = {
    "+": (operator.add, _pyop.SizeExpression.add),
    "-": (operator.sub, _pyop.SizeExpression.subtract),
    "*": (operator.mul, _pyop.SizeExpression.multiply),
    "//": (operator.floordiv, _pyop.SizeExpression.divide),
    "%": (operator.mod, _pyop.SizeExpression.remainder),
}
SIZES = [{"n": n, "m": m} for n, m in ((2, 3), (4, 1), (5, 7), (12, 5), (0, 4))]


def made(chance: random.Random, depth: int) -> tuple[_pyop.SizeExpression, str]:
    """Returns an expression, and the same expression as Python source."""
    if depth == 0 or chance.random() < 0.2:
        if chance.random() < 0.3:
            number = chance.randrange(-2, 7)
            return _pyop.SizeExpression(number), f"({number})"
        name = chance.choice("nm")
        return _pyop.SizeExpression.named(name), name
    sign = chance.choice(list(OPERATIONS))
    (a, left), (b, right) = made(chance, depth - 1), made(chance, depth - 1)
    return OPERATIONS[sign][1](a, b), f"({left} {sign} {right})"


def test_random_ones() -> None:
    chance = random.Random(20261116)
    compared = 0
    for _ in range(400):
        expression, source = made(chance, 3)
        text = expression.text
        for sizes in SIZES:
            try:
                right = eval(source, {}, sizes)
            except ZeroDivisionError:
                continue  # the expression may have simplified the division away
            compared += 1
            assert _pyop.evaluate_size(text, sizes) == right, (text, source, sizes)
            assert expression.evaluate(sizes) == right, (text, source, sizes)
            assert eval(text, {}, sizes) == right, (text, source, sizes)
    assert compared > 1000


@pytest.mark.parametrize(("n", "size"), [(2, 0), (4, 2), (5, 2)])
def test_a_quotient_times_two(n: int, size: int) -> None:
    one, two, three = _pyop.SizeExpression.named("n"), *map(_pyop.SizeExpression, (2, 3))
    expression = one.divide(three).multiply(two)
    assert expression.text == "2*(n//3)" and not one.divide(three).is_name
    assert expression.names == ["n"]
    assert _pyop.evaluate_size(expression.text, {"n": n}) == size


def inferred(rule: Any, name: str) -> Any:
    (shape,) = Rule(rule, "test::Rule", [], 1, 1).infer([(name,)], {}, 1)
    return shape[0] if shape else None


def test_texts_do_not_grow_along_a_chain_of_nodes() -> None:
    """The size that one node gives is a name for the next node."""
    name = longest = "n"
    for _ in range(40):
        name = inferred(lambda x: (x[0] // (x[0] // 3),), name)
        if name is None:
            break
        longest = name
    assert name is None and len(longest) <= 100
    own = "n" * 200  # a model's own name does not grow
    assert inferred(lambda x: (x[0],), own) == own

    def rule(x: Any) -> Any:
        size = x[0]
        for _ in range(40):
            size = size // (size // 3)
        return (size,)

    assert inferred(rule, "n") is None


def test_rules_with_quotients_are_tried_with_numbers() -> None:
    """Like those without: a rule that gives other results for numbers is not used."""
    assert inferred(lambda x: (x[0] // 2,), "n") == "n//2"
    assert inferred(lambda x: (x[0] // (1 if isinstance(x[0], int) else 2),), "n") is None
