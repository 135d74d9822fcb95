"""Shapes with unknown sizes, and the shape rules of operators that are applied to them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import index
from types import EllipsisType
from typing import Any, Union

from opgraft._base._errors import Error
from opgraft._pyop import SizeExpression

#: A shape rule computes with sizes, or with symbols that stand for sizes.
Size = Union[int, "Symbol"]
#: A shape as hosts pass it: sizes, names of symbols, and None for unknown sizes. Instead of a
#: shape, None stands for an absent input or an unknown output, `...` for an input of unknown rank.
Known = Union[Sequence[int | str | None], None, "EllipsisType"]


# Not a name that a model would use, since names in ONNX are printable.
_UNNAMED = "\0"
_LONGEST_TEXT = 100  # as in opgraft/shape.h

# A rule is tried with numbers that start at these.
_SAMPLES = (3, 8)


class Undecided(BaseException):
    """Raised if a rule depends on an unknown size; the shape then stays unknown.

    Not an Exception, because a rule that catches those would continue with a wrong assumption.
    """


class Symbol:
    """A size that is not known: a sum of products of names, such as `2*n + 1`.

    Symbols can be added, subtracted, multiplied, divided by `//` and `%`, and compared with values
    that are certainly equal or certainly different. Anything else raises Undecided, even hashing:
    a dict or set that holds the size would not find the symbol.
    """

    __slots__ = ("_expression",)

    def __init__(self, expression: SizeExpression) -> None:
        self._expression = expression

    @classmethod
    def named(cls, name: str) -> Symbol:
        return cls(SizeExpression.named(name))

    def __repr__(self) -> str:
        return self._expression.text

    def __hash__(self) -> int:
        raise Undecided(f"{self} is not a known number")

    def _compare(self, other: Any) -> int:
        """Returns the difference if it is certain; otherwise raises Undecided."""
        if not isinstance(other, Symbol):
            try:
                other = index(other)  # also takes NumPy's integers
            except TypeError:
                raise Undecided(f"{self} may or may not be {other!r}") from None
        difference = self - other
        if isinstance(difference, int):
            return difference
        raise Undecided(f"{self} may or may not be {other}")

    def __eq__(self, other: object) -> bool:
        return self._compare(other) == 0

    def __lt__(self, other: Size) -> bool:
        return self._compare(other) < 0

    def __le__(self, other: Size) -> bool:
        return self._compare(other) <= 0

    def __gt__(self, other: Size) -> bool:
        return self._compare(other) > 0

    def __ge__(self, other: Size) -> bool:
        return self._compare(other) >= 0

    def __add__(self, other: Size) -> Size:
        return _joined(SizeExpression.add, self, other)

    __radd__ = __add__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return _joined(SizeExpression.subtract, self, other)

    def __rsub__(self, other: Size) -> Size:
        return _joined(SizeExpression.subtract, other, self)

    def __mul__(self, other: Size) -> Size:
        return _joined(SizeExpression.multiply, self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        return _joined(SizeExpression.divide, self, other)

    def __rfloordiv__(self, other: Size) -> Size:
        return _joined(SizeExpression.divide, other, self)

    def __mod__(self, other: Size) -> Size:
        return _joined(SizeExpression.remainder, self, other)

    def __rmod__(self, other: Size) -> Size:
        return _joined(SizeExpression.remainder, other, self)

    def _refuse(self, *arguments: object) -> Any:
        raise Undecided(f"{self} is not a known number")

    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __abs__ = __divmod__ = __rdivmod__ = _refuse
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __and__ = __rand__ = _refuse
    __or__ = __ror__ = __xor__ = __rxor__ = __round__ = __float__ = __invert__ = _refuse

    def __bool__(self) -> bool:
        raise Undecided(f"{self} may or may not be zero")

    def __index__(self) -> int:
        raise Undecided(f"{self} is not a known number")

    __int__ = __index__


def _expression(value: Any) -> SizeExpression:
    """Returns the expression of a number or a symbol; raises Undecided for anything else."""
    if isinstance(value, Symbol):
        return value._expression
    try:
        return SizeExpression(index(value))
    except TypeError:  # also raised for a number that does not fit into 64 bits
        raise Undecided(f"{value!r} is not a size") from None


def _joined(
    operation: Callable[[SizeExpression, SizeExpression], SizeExpression], left: Size, right: Size
) -> Size:
    try:
        result = operation(_expression(left), _expression(right))
    except OverflowError:
        raise Undecided(f"the result of {left} and {right} is too large") from None
    number = result.number
    return Symbol(result) if number is None else number


class _UnknownShape:
    """The shape of an input of unknown rank: any use of it raises Undecided.

    Not a subclass of tuple: a tuple could be added to it, as if it were empty.
    """

    def _refuse(self, *arguments: object) -> Any:
        raise Undecided("the rank of an input is not known")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()

    __len__ = __iter__ = __getitem__ = __contains__ = __reversed__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = __bool__ = _refuse
    __add__ = __radd__ = __mul__ = __rmul__ = _refuse


_UNKNOWN = _UnknownShape()


def broadcast_shapes(*given: Sequence[Size] | None) -> tuple[Size, ...]:
    """Returns the shape that arrays of these shapes broadcast to. Like `numpy.broadcast_shapes`,
    but for shape rules: sizes may be symbols, and the shape of an absent input is None.

    >>> opgraft.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    shapes = [shape for shape in given if shape is not None]
    result: list[Size] = []
    for position in range(1, 1 + max((len(shape) for shape in shapes), default=0)):
        size: Size = 1
        for shape in shapes:
            other = shape[-position] if position <= len(shape) else 1
            if isinstance(other, int) and other == 1:
                continue
            if isinstance(size, int) and size == 1:
                size = other
            elif not isinstance(size, (int, Symbol)) or not isinstance(other, (int, Symbol)):
                # Symbols of another library, which can tell what they are equal to.
                if size == 1:
                    size = other
                elif other != 1 and size != other:
                    raise ValueError(f"shapes {given} cannot be broadcast together")
            elif isinstance(size, Symbol) and isinstance(other, int):
                size = other  # which is not 1
            elif isinstance(size, Symbol) and isinstance(other, Symbol):
                if repr(size) != repr(other):
                    raise Undecided(f"either of {size} and {other} may be 1")
            elif isinstance(size, int) and isinstance(other, int) and size != other:
                raise ValueError(f"shapes {given} cannot be broadcast together")
        result.insert(0, size)
    return tuple(result)


class Rule:
    """The shape rule of an operator: takes the inputs' shapes and the attributes that it names."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        attributes: Sequence[str],
        inputs: int,
        outputs: int,
    ) -> None:
        self._function = function
        self._name = name
        self._attributes = attributes  # the attributes that the function takes
        self._inputs = inputs  # the smallest number of shapes it gets; None for absent inputs
        self._outputs = outputs  # the operator's number of outputs; -1 if the node chooses it

    def infer(
        self, shapes: Sequence[Known], attributes: Mapping[str, Any], outputs: int
    ) -> list[Known]:
        """Returns the outputs' shapes, unknown where they depend on unknown sizes.

        If the rule raises, the shapes are unknown: it may work on numbers, and if not, raises when
        it is applied.
        """
        count = 0
        taken: set[str] = set()  # names from the model, which may be any text

        def size(known: int | str | None) -> Size:
            nonlocal count
            if isinstance(known, int):
                return known
            count += known is None
            taken.add(known or "")
            return Symbol.named(known or f"{_UNNAMED}{count}")

        given = [
            _UNKNOWN
            if isinstance(shape, EllipsisType)
            else None
            if shape is None
            else tuple(map(size, shape))
            for shape in shapes
        ]
        try:
            inferred = self._call(given, attributes, outputs)
        except (Undecided, Exception):
            return [None] * outputs
        for first in _SAMPLES:
            if not self._holds(inferred, given, attributes, first):
                return [None] * outputs
        return [
            None if shape is None else [_known(size, taken) for size in shape] for shape in inferred
        ]

    def _holds(
        self,
        inferred: Sequence[Sequence[Size | None] | None],
        given: Sequence[Any],
        attributes: Mapping[str, Any],
        first: int,
    ) -> bool:
        """Whether the rule gives the same result for some numbers as for symbols.

        A rule that uses `isinstance(size, int)` may not.
        """
        names = {name for shape in given if type(shape) is tuple for name in _names(shape)}
        sizes = {name: first + 4 * place for place, name in enumerate(sorted(names))}
        numbers = [
            tuple(_number(size, sizes) for size in shape) if type(shape) is tuple else shape
            for shape in given
        ]
        try:
            known = self._call(numbers, attributes, len(inferred))
        except (Undecided, Exception):
            return True  # the rule may not allow these numbers
        for symbolic, numeric in zip(inferred, known, strict=True):
            if symbolic is None or numeric is None:
                continue
            if len(symbolic) != len(numeric):
                return False
            for size, number in zip(symbolic, numeric, strict=True):
                value = None if size is None else _number(size, sizes)
                if value is not None and number is not None and value != number:
                    return False
        return True

    def apply(
        self, shapes: Sequence[tuple[int, ...] | None], attributes: Mapping[str, Any], outputs: int
    ) -> list[tuple[int | None, ...] | None]:
        """Returns the outputs' shapes for inputs of these shapes; None stands for an absent input.

        A shape or a size that the rule leaves open is None.
        """
        inferred = self._call(shapes, attributes, outputs)
        return [None if shape is None else tuple(shape) for shape in inferred]  # type: ignore[arg-type]

    def apply_to_symbols(
        self,
        shapes: Sequence[Any],
        attributes: Mapping[str, Any],
        outputs: int,
        *,
        symbols: type[Any],
    ) -> list[list[Any] | None]:
        """Like `apply`, but sizes may also be of the type `symbols`, which belongs to another
        library and decides comparisons itself."""
        inferred = self._call(shapes, attributes, outputs, symbols)
        return [None if shape is None else list(shape) for shape in inferred]

    def _call(
        self,
        shapes: Sequence[Any],
        attributes: Mapping[str, Any],
        outputs: int,
        symbols: type[Any] = Symbol,
    ) -> list[Sequence[Size | None] | None]:
        chosen = {name: attributes[name] for name in self._attributes}
        absent = [None] * (self._inputs - len(shapes))
        result = self._function(*shapes, *absent, **chosen)
        if self._outputs == 1:
            result = (result,)
        if not isinstance(result, (tuple, list)) or len(result) != outputs:
            raise Error(
                f"the shape rule of {self._name} must return {outputs} shapes, one for each "
                f"output, but it returned {result!r}"
            )
        return [self._checked(shape, symbols) for shape in result]

    def _checked(self, shape: Any, symbols: type[Any]) -> Sequence[Size | None] | None:
        if shape is None or isinstance(shape, _UnknownShape):
            return None
        if isinstance(shape, (tuple, list)):
            sizes = [s if s is None or isinstance(s, symbols) else _integer(s) for s in shape]
            if all(s is None or isinstance(s, symbols) or 0 <= s < 2**63 for s in sizes):
                return sizes
        raise Error(
            f"the shape rule of {self._name} must return a shape such as (2, 3), a tuple of "
            f"sizes, for each output, but it returned {shape!r}"
        )


def _integer(size: Any) -> int:
    """Returns the size as an int, or -1 if it is not a size."""
    try:
        return -1 if isinstance(size, (bool, float)) else int(size.__index__())
    except (AttributeError, TypeError):
        return -1


def _names(shape: Sequence[Size]) -> set[str]:
    symbols = [size for size in shape if isinstance(size, Symbol)]
    return {name for symbol in symbols for name in symbol._expression.names}


def _number(size: Size, sizes: dict[str, int]) -> int | None:
    """Returns the value of a size, or None if it has a name that is not in `sizes`."""
    return size._expression.evaluate(sizes) if isinstance(size, Symbol) else size


def _known(size: Size | None, taken: Collection[str]) -> int | str | None:
    """Returns a size in the form that hosts take. A sum is left open if its text is also a name in
    the model, which it would be mistaken for, or if it is long, since it would grow without bound
    in a long chain of operators."""
    if size is None or isinstance(size, int):
        return size
    text = repr(size)
    is_open = text in taken or len(text) > _LONGEST_TEXT
    return None if _UNNAMED in text or (is_open and not size._expression.is_name) else text
