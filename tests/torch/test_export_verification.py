"""What verification finds: operators that torch's exporter gets wrong, and who is guilty."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

from onnxscript import opset18 as op  # noqa: E402
from torch.nn import functional  # noqa: E402

import opgraft.torch  # noqa: E402
from opgraft.torch import _private  # noqa: E402
from opgraft.torch._graphs import _graph  # noqa: E402
from opgraft.torch._program import _dispatch  # noqa: E402
from opgraft.torch._rungs import _nodes  # noqa: E402
from opgraft.torch._verify import _rounding, _weights  # noqa: E402

# Of which functions of ours would be right.
pytestmark = pytest.mark.usefixtures("without_special_functions")

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(4, 4, generator=GENERATOR)
IMAGE = torch.randn(1, 2, 6, 6, generator=GENERATOR)
INDEX = torch.tensor([0, 1, 1, 3, 0, 0, 3, 1])


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def batch_norm(x):
    return functional.batch_norm(x, torch.zeros(2), torch.ones(2), training=True)


def scatter(x, index):
    return torch.zeros(4).scatter_reduce(0, index, x, "mean", include_self=False)


KNOWN_WRONG = {
    "batch_norm": (batch_norm, IMAGE),
    "avg_pool2d": (lambda x: functional.avg_pool2d(x, 3, divisor_override=2), IMAGE),
    "erfcx": (lambda x: torch.special.erfcx(x), 3 * X),
    "log_ndtr": (lambda x: torch.special.log_ndtr(x), 5 * X),
    "nonzero": (lambda x: torch.nonzero(x), torch.tensor(0.0)),
    "matrix_power": (lambda x: torch.linalg.matrix_power(x, 0), X.expand(2, 4, 4)),
    "scatter_reduce": (scatter, torch.arange(8.0), INDEX),
}


@pytest.mark.parametrize("name", KNOWN_WRONG)
def test_the_known_wrong_ones_come_out_right(name: str) -> None:
    """torch.onnx.export of torch 2.13 gives wrong results for these, and says nothing."""
    function, *args = KNOWN_WRONG[name]
    program = opgraft.torch.export(function, tuple(args))
    torch.testing.assert_close(program(*args)[0], function(*args), rtol=1e-4, atol=1e-5)
    fell = [row for row in program.report.rows if row.kind not in ("standard", "function")]
    if name in ("scatter_reduce", "nonzero"):  # a function of ours takes its place always
        assert not fell
        return
    assert len(fell) == 1 and "torch: its result is wrong" in fell[0].because, program.report
    assert "its result is wrong" in str(program.report)


def test_the_guilty_one_is_named_where_nothing_may_replace_it() -> None:
    with pytest.raises(opgraft.Error, match="aten::special_erfcx .*its result is wrong: output 0"):
        opgraft.torch.export(
            lambda x: torch.relu(torch.special.erfcx(x) + 1), (3 * X,), fallback="none"
        )
    program = opgraft.torch.export(
        lambda x: torch.special.erfcx(x), (3 * X,), fallback="none", verify=False
    )
    assert not program.report.verified and "verified: no" in str(program.report)


def test_only_the_node_that_is_wrong_falls_back() -> None:
    """Of two calls of the same operator the other one stays standard."""

    def model(x):
        return functional.avg_pool2d(functional.avg_pool2d(x, 2), 3, divisor_override=2)

    program = opgraft.torch.export(model, (IMAGE,))
    assert [(row.kind, row.count) for row in program.report.rows] == [("standard", 1), ("aten", 1)]
    torch.testing.assert_close(program(IMAGE)[0], model(IMAGE))


def test_a_translation_that_raises_or_that_the_runtime_refuses() -> None:
    """amax without an axis, attention of three dimensions."""

    def model(x):
        attended = functional.scaled_dot_product_attention(x, x, x)
        return torch.ops.aten.amax(attended)

    x = torch.rand(2, 3, 8)
    program = opgraft.torch.export(model, (x,))
    rows = {row.operator: row for row in program.report.rows}
    assert rows["aten::amax"].kind == "function" and "raised" in rows["aten::amax"].because
    torch.testing.assert_close(program(x)[0], model(x))


def test_what_nothing_else_helps_is_decomposed_further() -> None:
    """ONNX Runtime's Gemm forgets beta where it adds up nothing, and an ATen node has no Scalar."""

    def model(x, a, b):
        return torch.addmm(x, a, b, beta=0.5)

    args = X, torch.ones(4, 0), torch.ones(0, 4)
    program = opgraft.torch.export(model, args)
    torch.testing.assert_close(program(*args)[0], model(*args))
    assert "aten::addmm" not in {row.operator for row in program.report.rows}
    assert any("aten::addmm was decomposed further" in note for note in program.report.notes)


def test_a_wrong_decomposition_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ONNX node does what the decomposed graph says; the graph itself is wrong."""
    table = _private.private("torch._decomp", "decomposition_table")
    target = torch.ops.aten.trace.default
    monkeypatch.setitem(table, target, lambda x: x.diagonal().sum() * 2)
    program = opgraft.torch.export(lambda x: torch.trace(x) + 1, (X,))
    torch.testing.assert_close(program(X)[0], torch.trace(X) + 1)
    assert {row.operator: row.kind for row in program.report.rows}["aten::trace"] == "aten"
    assert any("torch decomposes it wrongly" in note for note in program.report.notes)


def test_a_wrong_capture_is_an_error() -> None:
    class Model(torch.nn.Module):
        def forward(self, x):
            is_captured = torch.compiler.is_compiling() or torch.jit.is_tracing()
            return x if is_captured else x + 1

    with pytest.raises(opgraft.Error, match="torch.export captured differs from the model"):
        opgraft.torch.export(Model(), (X,))


def test_memory_that_nobody_wrote() -> None:
    """Where a result depends on it, that is said; where it does not, nothing is."""

    def harmless(x):
        return torch.empty_like(x).copy_(x) + 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not opgraft.torch.export(harmless, (X,)).report.notes
    with pytest.warns(UserWarning, match="uninitialised memory"):
        report = opgraft.torch.export(lambda x: torch.empty_like(x) + x, (X,)).report
    assert not report.verified and "verified: no" in str(report)  # it was compared, and differs
    assert any("uninitialised memory" in note for note in report.notes)
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_name_does_not_exempt_from_comparison() -> None:
    """Of what is called something with "empty", and of what really gives memory as it is."""

    @torch.library.custom_op("verification_test::nonempty_sum", mutates_args=())
    def nonempty_sum(x: torch.Tensor) -> torch.Tensor:
        return x.sum(0)

    nonempty_sum.register_fake(lambda x: x.new_empty(x.shape[1:]))
    target = torch.ops.verification_test.nonempty_sum.default

    def wrong(x: Any) -> Any:
        return op.ReduceMax(x, op.Constant(value_ints=[0]), keepdims=0)

    with pytest.raises(opgraft.Error, match="nonempty_sum .*its result is wrong"):
        opgraft.torch.export(nonempty_sum, (X,), custom_translation_table={target: wrong})
    aten = torch.ops.aten
    for one in (aten.empty.memory_format, aten.empty_like.default, aten.new_empty.default):
        assert _graph.is_uninitialised(one)
    assert not _graph.is_uninitialised(aten.full.default)


def test_a_translation_that_passes_its_argument_on() -> None:
    """It makes no node, so that there is nothing to run; it is looked at all the same."""
    table = {torch.ops.aten.relu.default: lambda x: x}
    with pytest.raises(opgraft.Error, match="aten::relu .*its result is wrong: output 0"):
        opgraft.torch.export(lambda x: torch.relu(x) + 1, (X,), custom_translation_table=table)


def test_a_second_size_finds_what_the_first_hides() -> None:
    """A translation that is right for 3 rows alone."""

    def thrice(x: Any) -> Any:
        return op.Mul(x, op.Constant(value_float=3.0))

    torch.library.define("opgraft_sizes::times_rows", "(Tensor x) -> Tensor")
    torch.library.impl("opgraft_sizes::times_rows", "CompositeExplicitAutograd")(
        lambda x: x * x.shape[0]
    )
    table = {torch.ops.opgraft_sizes.times_rows.default: thrice}

    def model(x):
        return torch.ops.opgraft_sizes.times_rows(x)

    x = torch.rand(3, 2)
    assert opgraft.torch.export(model, (x,), custom_translation_table=table).report.verified
    with pytest.raises(opgraft.Error, match="opgraft_sizes::times_rows .*its result is wrong"):
        opgraft.torch.export(
            model, (x,), custom_translation_table=table, dynamic_shapes=({0: "n"},)
        )


def test_random_operators_are_compared_one_by_one() -> None:
    """Dropout in training: what is not random is held to its values all the same."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    with pytest.warns(UserWarning, match=r"training mode.*model\.eval"):
        program = opgraft.torch.export(model.train(), (X,))
    assert program.report.is_random
    assert program.report.verified == [
        "the given arguments, operator by operator, since some are random"
    ]
    (once,), (again,) = program(X), program(X)
    assert not torch.equal(once, again) and (once == 0).any()

    def wrong(x):
        return functional.avg_pool2d(torch.rand_like(x) + x, 3, divisor_override=2)

    program = opgraft.torch.export(wrong, (IMAGE,))
    assert [row.operator for row in program.report.rows if row.kind == "aten"] == [
        "aten::avg_pool2d"
    ]


def test_what_was_captured_of_a_random_model_is_compared_with_it() -> None:
    """With the same random numbers, which the graph draws in the same order."""

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            factor = 2 if torch.compiler.is_compiling() else 3
            return x * factor + torch.rand_like(x) * 1e-6

    program = opgraft.torch.export(Model(), (X,), progress=False)
    assert program.report.captured == "traced"
    torch.testing.assert_close(program(X)[0], 3 * X, rtol=1e-4, atol=1e-4)
    assert any(
        "torch.export captured differs from the model" in one for one in program.report.notes
    )


def test_a_random_model_that_draws_otherwise_is_not_called_verified() -> None:
    """So that nobody can say whether the graph is what the model does."""

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            if not torch.compiler.is_compiling():
                torch.rand(1)
            return x + torch.rand_like(x)

    report = opgraft.torch.export(Model(), (X,), progress=False).report
    assert report.verified == [] and "verified: no" in str(report)
    assert any("draws its random numbers differently than the model" in one for one in report.notes)


class Seeded(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        with torch.random.fork_rng():
            torch.manual_seed(5)
            return x + torch.rand(4)


@pytest.mark.parametrize("options", [{}, {"dynamo": False}])
def test_a_model_that_sets_its_own_seed_is_not_random(options: Any) -> None:
    """It gives the same each time, and ONNX would not."""
    with pytest.raises(opgraft.Error, match="elements differ") as caught:
        opgraft.torch.export(Seeded(), (X,), progress=False, **options)
    if not options:
        assert re.search("the same results for every seed.*Fix: draw them once", str(caught.value))


def test_random_numbers_that_no_result_depends_on() -> None:
    program = opgraft.torch.export(lambda x: x * 2 + 0 * torch.rand_like(x), (X,), progress=False)
    assert program.report.verified == ["the given arguments"]


def test_eval_is_silent_and_nothing_of_the_model_changes() -> None:
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not opgraft.torch.export(model.eval(), (X,)).report.is_random
    state = torch.get_rng_state()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.warns(UserWarning, match="training mode"):
        program = opgraft.torch.export(model.train(), (X,))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert any(row.part_of == "aten::batch_norm" for row in program.report.rows)


def test_rounding_is_not_held_against_anybody() -> None:
    """An ill-conditioned result, and sums in which large numbers cancel out."""
    hilbert = 1 / (torch.arange(5)[:, None] + torch.arange(5) + 1.0)
    program = opgraft.torch.export(lambda x: torch.linalg.inv(x), (hilbert,), fallback="pack")
    assert program.report.verified and not program.report.notes
    large = torch.randn(64, 512, generator=GENERATOR) * 1e3
    wave = torch.randn(100, generator=GENERATOR) * 10
    window = torch.ones(10)
    for model, x in (
        (lambda x: x @ x.T - (x @ x.T).T, large),
        # Imaginary parts that torch finds to be 0, and others nearly.
        (lambda x: torch.view_as_real(torch.stft(x, 10, window=window, return_complex=True)), wave),
        (lambda x: torch.log1p(x), torch.tensor(3.14799e-07)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            program = opgraft.torch.export(model, (x,), fallback="none")
        assert program.report.verified and not program.report.notes


def test_differences_are_told_from_rounding() -> None:
    wanted = torch.tensor([1.0, 1e-7, 3e9, float("nan"), float("inf")])
    assert _rounding.difference([wanted], [wanted * (1 + 1e-5)]) == ""
    for place, value in ((0, 1.01), (2, 3.1e9), (3, 0.0), (4, 1e38)):
        wrong = wanted.clone()
        wrong[place] = value
        assert "1 of 5 elements differ" in _rounding.difference([wanted], [wrong])
    tiny = torch.tensor([1e-3, 2e-3])
    assert "differ" in _rounding.difference([tiny], [tiny + 5e-6])
    assert _rounding.difference([tiny * 1e-4], [2 * tiny * 1e-4]) == ""
    assert "differ" in _rounding.difference([wanted], [wanted + torch.tensor([0, 50.0, 0, 0, 0])])
    assert (
        _rounding.difference([wanted], [wanted + torch.tensor([0, 50.0, 0, 0, 0])], roundings=10)
        == ""
    )
    assert "int64 instead of float32" in _rounding.difference([tiny], [tiny.long()])
    assert "shape [1, 2] instead of [2]" in _rounding.difference([tiny], [tiny[None]])
    assert "expected 2 outputs, got 1" in _rounding.difference([tiny, tiny], [tiny])
    nothing = torch.full((2,), float("nan"))
    assert "differ" in _rounding.difference([nothing], [tiny], lambda: [nothing])
    disturbed = [tiny + 1]
    assert _rounding.difference([tiny], [tiny + 5], lambda: disturbed) == ""
    assert "differ" in _rounding.difference([tiny], [tiny + 500], lambda: disturbed)


@pytest.mark.parametrize("options", [{}, {"dynamo": False}])
@pytest.mark.parametrize(
    ("x", "what"),
    [(X, "is NaN or infinite everywhere"), (X[:0], "is empty")],
    ids=["NaN", "empty"],
)
def test_results_without_a_number_are_not_called_verified(x: Any, what: str, options: Any) -> None:
    """The logarithm of a logarithm is NaN where the logarithm is."""

    class Logarithm(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.log(-x * x), torch.exp(y)

    wrong = {torch.ops.aten.log.default: lambda x: op.Log(op.Log(x))}
    told = f"output 0 {what}: no number in it was compared"

    class One(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.log(-x * x)

    with pytest.warns(UserWarning, match="nothing is verified.*Fix: give arguments"):
        report = opgraft.torch.export(
            One(), (x,), custom_translation_table=wrong, progress=False, **options
        ).report
    assert report.verified == [] and "verified: no" in str(report)
    assert f"with the given arguments, {told}" in report.notes
    # Others are compared, and count.
    report = opgraft.torch.export(
        Logarithm(), (x, X), custom_translation_table=wrong, progress=False, **options
    ).report
    assert report.verified[0] == f"the given arguments, except: {told}"


class BoxesAndScores(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cat([x * 1000, torch.sigmoid(x)], -1)


def test_small_numbers_beside_large_ones_are_held_to_their_own_size() -> None:
    """A whole program may be off by many roundings of what its numbers are made of, not of the
    largest one."""
    table = {torch.ops.aten.sigmoid.default: lambda x: op.HardSigmoid(x, alpha=0.2, beta=0.5)}
    for x in (torch.tensor([0.5, 1.5, -0.7]), torch.linspace(-1, 1, 30).reshape(10, 3)):
        with pytest.raises(opgraft.Error, match="traced program is wrong.*elements differ"):
            opgraft.torch.export(
                BoxesAndScores(), (x,), custom_translation_table=table, dynamo=False, progress=False
            )
        report = opgraft.torch.export(BoxesAndScores(), (x,), dynamo=False, progress=False).report
        assert report.verified


class Differences(torch.nn.Module):
    """Of weights about 1000 that are nearly the same, but for one."""

    def __init__(self) -> None:
        super().__init__()
        self.one = torch.nn.Embedding.from_pretrained(torch.full((2, 4), 1000.0))
        self.register_buffer("other", torch.tensor([-1e5, 999.99, 999.98, 999.97]))

    def forward(self, index: Any) -> Any:
        return torch.sub(self.one(index), self.other)


def test_roundings_of_weights_count() -> None:
    """Where no argument can be disturbed: numbers near zero differ by as much as what they are made
    of may, and by no more."""
    target = torch.ops.aten.sub.Tensor

    def export(off: float) -> Any:
        def translation(x: Any, y: Any, alpha: float = 1.0) -> Any:
            return op.Add(op.Sub(x, y), op.CastLike(op.Constant(value_float=off), x))

        return opgraft.torch.export(
            model,
            (torch.tensor([0, 1]),),
            custom_translation_table={target: translation},
            dynamo=False,
            progress=False,
        )

    model = Differences()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert export(3e-4).report.verified
    # Though it is less than 100 roundings of the largest.
    with pytest.raises(opgraft.Error, match="traced program is wrong.*6 of 8 elements differ"):
        export(1.0)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_weights_are_disturbed_for_a_while() -> None:
    model = torch.nn.Linear(3, 3)
    before = [one.clone() for one in model.parameters()]
    with pytest.raises(ValueError, match="inside"), _weights.disturbed(model.parameters()):
        for one, two in zip(model.parameters(), before, strict=True):
            assert not torch.equal(one, two)
            torch.testing.assert_close(one, two, rtol=1e-5, atol=0)
        raise ValueError("inside")
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), before, strict=True))


def test_a_model_that_cannot_be_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operator alone runs, but not all of them together."""
    from opgraft.torch._verify import _verify

    monkeypatch.setattr(_verify, "find_guilty", lambda *args, **kwargs: None)
    table = {torch.ops.aten.relu.default: lambda x: _nodes.append("no", "One", [x], {}, 1)[0]}
    with pytest.raises(opgraft.Error, match="cannot be used: with the given arguments, it fails"):
        opgraft.torch.export(torch.nn.ReLU(), (X,), custom_translation_table=table)
    with pytest.raises(
        opgraft.Error, match="differs from the model.*rounding errors may have added up"
    ) as caught:
        opgraft.torch.export(*KNOWN_WRONG["avg_pool2d"])
    assert str(caught.value).count("was tried too") == 2 and "verify=False" in str(caught.value)
    assert opgraft.torch.export(*KNOWN_WRONG["avg_pool2d"], verify=False).report.verified == []


def test_every_retry_takes_something_away() -> None:
    """A node that nothing helps ends the search."""
    choices: list[Any] = []
    original = _dispatch.Dispatcher.bar

    def bar(self: Any, choice: Any, because: str) -> bool:
        choices.append((choice.place, choice.kind))
        return original(self, choice, because)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(opgraft.Error):
        patch.setattr(_dispatch.Dispatcher, "bar", bar)
        opgraft.torch.export(lambda x: torch.special.erfcx(x), (3 * X,), fallback=("function",))
    assert len(choices) == len(set(choices))


def test_attention_without_dropout_is_compared() -> None:
    """Although torch counts it among the random operators."""
    aten = torch.ops.aten

    def attend(x):
        return functional.scaled_dot_product_attention(x, x, x)

    def wrong(query, key, value, *rest, **named):
        from onnxscript import opset18

        return opset18.Mul(query, opset18.Constant(value_float=100.0))

    table = {aten.scaled_dot_product_attention.default: wrong}
    x = torch.randn(1, 2, 4, 8, generator=GENERATOR)
    with pytest.raises(opgraft.Error, match="scaled_dot_product_attention"):
        opgraft.torch.export(attend, (x,), custom_translation_table=table, fallback="none")
    assert not opgraft.torch.export(attend, (x,)).report.is_random


def test_random_numbers_and_replaced_buffers_are_as_before() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count = self.count + 1
            return torch.special.erfcx(x) + self.count

    model = Counting().eval()
    count = model.count
    state = torch.random.get_rng_state()
    with pytest.warns(UserWarning, match="count"):
        opgraft.torch.export(model, (3 * X,), specialise=True)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert model.count is count and count == 0
