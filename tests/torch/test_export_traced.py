"""Models that torch.export cannot capture: torch's tracing exporter is the last way."""

import ctypes
import warnings

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence  # noqa: E402

import opgraft  # noqa: E402
import opgraft.torch  # noqa: E402
from opgraft.torch._traced import _conversions, _traced_corrections  # noqa: E402
from opgraft.torch._verify import _ties  # noqa: E402

# Of which functions of ours would be right.
pytestmark = pytest.mark.usefixtures("without_special_functions")


class Packed(torch.nn.Module):
    """A GRU over a packed sequence, which torch.export does not capture."""

    def __init__(self, **padding):
        super().__init__()
        self.gru = torch.nn.GRU(3, 4, batch_first=True)
        self.padding = padding

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        output, hidden = self.gru(packed)
        return pad_packed_sequence(output, batch_first=True, **self.padding)[0], hidden


def export(model, *args, **options):
    return opgraft.torch.export(model.eval(), args, dynamo=False, **options)


def check(program, model, *args):
    with torch.no_grad():
        wanted = model(*args)
    got = program(*args)
    for one, other in zip(got, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_packed_sequence_is_traced_where_torch_export_fails():
    model = Packed().eval()
    args = torch.randn(3, 5, 3), torch.tensor([5, 4, 2])
    shapes = ({0: "batch", 1: "time"}, {0: "batch"})
    program = opgraft.torch.export(model, args, dynamic_shapes=shapes)
    report = program.report
    assert report.captured == "traced"
    assert report.is_portable
    assert [one.partition("holds where ")[2] for one in report.specialised] == [
        "the lengths are sorted, the longest first"  # else the model raises
    ]
    assert any("traced, since torch.export's way failed" in note for note in report.notes)
    assert [one for one in report.verified if one.startswith("other sizes")]
    assert [one for one in report.verified if one.startswith("other data")]
    assert [row.became for row in report.rows if row.operator == "aten::gru"]
    assert [str(one.name) for one in program.model.graph.inputs] == ["x", "lengths"]
    check(program, model, torch.randn(2, 7, 3), torch.tensor([7, 1]))
    # torch's own symbolic function gives all the steps that were packed.
    check(program, model, torch.randn(4, 6, 3), torch.tensor([4, 3, 3, 1]))


@pytest.mark.parametrize("padding", [{"padding_value": -2.0}, {"total_length": 8}])
def test_padding_of_a_packed_sequence(padding):
    model = Packed(**padding).eval()
    program = export(model, torch.randn(3, 5, 3), torch.tensor([5, 4, 2]))
    check(program, model, torch.randn(3, 5, 3), torch.tensor([3, 2, 1]))


class Select(torch.nn.Module):
    def forward(self, x):
        return x[x.sum(1) > 0] * 2


def test_a_size_that_depends_on_data():
    model = Select()
    program = export(model, torch.randn(4, 3), dynamic_shapes=({0: "n"},))
    for x in (torch.randn(7, 3), torch.ones(2, 3), -torch.ones(2, 3)):
        check(program, model, x)


@torch.jit.script
def suppress(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Keeps a number if none that is kept before is near, the highest first."""
    order = scores.argsort(descending=True)
    is_kept = torch.ones_like(order, dtype=torch.bool)
    for i in range(order.size(0)):
        if bool(is_kept[i]):
            near = (boxes[order] - boxes[order[i]]).abs() < 0.2
            later = torch.arange(order.size(0)) > i
            is_kept = torch.logical_and(is_kept, torch.logical_not(torch.logical_and(near, later)))
    return order[is_kept]


class Suppress(torch.nn.Module):
    def forward(self, boxes, scores):
        kept = suppress(boxes, scores)
        return boxes[kept], scores[kept]


def test_a_loop_that_suppresses():
    model = Suppress()
    args = torch.tensor([0.1, 0.5, 0.2, 0.9, 0.95]), torch.tensor([0.5, 0.3, 0.8, 0.1, 0.2])
    program = export(model, *args, dynamic_shapes=({0: "n"}, {0: "n"}))
    assert "prim::Loop" in [row.operator for row in program.report.rows]
    check(program, model, torch.linspace(0, 1, 8), torch.tensor([3.0, 1, 4, 1.5, 9, 2, 6, 5]))


class Branch(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return -x


class Item(torch.nn.Module):
    def forward(self, x):
        return x * x.max().item()


class Equal(torch.nn.Module):
    def forward(self, x):
        return x * 2 if torch.equal(x, x.flip(0)) else x * 3


class Count(torch.nn.Module):
    def forward(self, x):
        rows = x[x[:, 0] > 0.5]
        return x * len(rows)


class Array(torch.nn.Module):
    def forward(self, x):
        return x + torch.from_numpy(x.detach().numpy().max(keepdims=True))


REFUSED = r"(?s)decides by data.*test_export_traced.py, line "


@pytest.mark.parametrize("model", [Branch(), Item(), Equal(), Count(), Array()])
def test_a_tensor_that_becomes_a_value_of_pythons_is_refused(model):
    with pytest.raises(opgraft.ModelError, match=REFUSED):
        export(model, torch.rand(4, 3))


def _chained(x, y):
    inside = 0 < x[0] < 2
    return torch.where(inside, x, y)


def _both(x, y):
    return torch.where(x[0] > 0 and x[1] > 0, x, y)


def _either(x, y):
    return torch.where(x[0] < 0 or x[1] > 0, x, y)


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
@pytest.mark.parametrize("model", [_chained, _both, _either])
def test_each_of_several_arguments_is_watched(model, is_first):
    """Torch names them after variables of Python's; of one name is the last alone."""
    x, y = torch.tensor([1.0, 2, 3]), torch.ones(3)
    swapped = model if is_first else (lambda y, x: model(x, y))
    for options in ({}, {"dynamo": False}):
        with pytest.raises(opgraft.ModelError, match=REFUSED):
            opgraft.torch.export(swapped, (x, y) if is_first else (y, x), **options)


def test_specialise_allows_a_trace_for_the_examples_data():
    with pytest.warns(UserWarning, match=r"specialised.*holds where x.sum\(\) > 0"):
        program = export(Branch(), torch.rand(4, 3), specialise=True)
    assert program.report.captured == "traced"
    assert program.report.verified == ["the given arguments, where x.sum() > 0"]
    stored = program.model_proto.metadata_props
    assert ["x.sum() > 0" in one.value for one in stored if one.key == "opgraft.holds_where"]
    assert "not compared" in str(program.report)


class OfSizes(torch.nn.Module):
    """Asks for sizes in ways that fix none."""

    def forward(self, x):
        if x.shape[0] > 0:
            x = x * 2
        if len(x.shape) != 2:
            raise ValueError("expected a matrix")
        return x + torch.ones(x.shape[0], 1)


class SizeBranch(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] > 3 else -x


def test_sizes_that_become_values_of_pythons_are_tried():
    program = export(OfSizes(), torch.rand(4, 3), dynamic_shapes=({0: "n", 1: "m"},))
    assert not program.report.specialised
    check(program, OfSizes(), torch.rand(9, 2))
    with pytest.raises(opgraft.ModelError, match=r"(?s)with other sizes \(n=3\).*x.shape\[0\] > 3"):
        export(SizeBranch(), torch.rand(4, 3), dynamic_shapes=({0: "n"},))
    with pytest.raises(opgraft.ModelError, match=r"x.shape\[0\] > 3"):
        export(SizeBranch(), torch.rand(4, 3), dynamic_shapes=({0: "n"},), verify=False)
    assert not export(SizeBranch(), torch.rand(4, 3)).report.specialised  # sizes are the example's


class Assert(torch.nn.Module):
    def forward(self, x):
        assert x.sum() > 0
        if x.max() > 1e6:
            raise ValueError("too large")
        return x * 2


def test_what_the_model_asserts_is_told():
    program = export(Assert(), torch.rand(4, 3))
    assert [one.partition("holds where ")[2] for one in program.report.specialised] == [
        "x.sum() > 0",
        "not (x.max() > 1000000.0)",
    ]


class Unseen(torch.nn.Module):
    """Takes numbers out of a tensor in a way that torch does not warn of."""

    def forward(self, x):
        return x + ctypes.c_float.from_address(x.data_ptr()).value


def test_other_data_shows_what_nobody_warned_of(monkeypatch):
    seen = [name for name in _conversions._MEMORY if name != "data_ptr"]
    monkeypatch.setattr(_conversions, "_MEMORY", seen)
    with pytest.raises(opgraft.ModelError, match="right for the example, but with other data"):
        export(Unseen(), torch.rand(4, 3))


def test_results_that_ties_decide_cannot_be_compared(monkeypatch):
    """No operator is to blame, so none is looked for."""
    undecided = "output 0: 4 of 4 elements differ", _ties.UNDECIDED
    monkeypatch.setattr(_ties, "difference", lambda *_, **__: undecided)
    with pytest.raises(opgraft.Error, match="cannot be compared.*Fix: give an example, or weights"):
        export(OfSizes(), torch.rand(4, 3))


@torch.library.custom_op("opgraft_test_traced::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


class Lacking(torch.nn.Module):
    def forward(self, x):
        y = torch.lgamma(x) + torch.linalg.inv(x) + torch.special.airy_ai(x)
        return y + twice(x), torch.xlogy(x, x), torch.linalg.svdvals(x)


def test_operators_that_it_lacks_take_the_ladder():
    program = export(Lacking(), torch.rand(3, 3) + torch.eye(3))
    kinds = {row.operator.partition(".")[0]: row.kind for row in program.report.rows}
    assert kinds == {
        "aten::add": "standard",
        "aten::xlogy": "standard",  # by the translation of torch's other exporter
        "aten::lgamma": "function",
        "aten::linalg_inv": "pack",
        "aten::special_airy_ai": "aten",
        "aten::linalg_svdvals": "aten",
        "opgraft_test_traced::twice": "python",
    }
    assert __name__ in program.report.allow
    check(program, Lacking(), torch.rand(3, 3) + 2 * torch.eye(3))
    with pytest.raises(opgraft.UnavailableError, match=r"special_airy_ai|linalg_inv|lgamma"):
        export(Lacking(), torch.rand(3, 3) + torch.eye(3), fallback="none")


class OpenAiry(torch.nn.Module):
    def forward(self, x):
        return torch.special.airy_ai(x[x > 0.5])


def test_an_aten_node_takes_sizes_that_depend_on_data():
    program = export(OpenAiry(), torch.rand(6), dynamic_shapes=({0: "n"},), opset_version=17)
    check(program, OpenAiry(), torch.rand(11))


def test_a_translation_of_the_users_goes_first():
    def sine(x):
        from onnxscript import opset18

        return opset18.Sin(x)

    table = {torch.ops.aten.tanh.default: sine}
    program = export(torch.nn.Tanh(), torch.rand(3), custom_translation_table=table, verify=False)
    assert [(row.kind, row.became) for row in program.report.rows] == [("user", "Sin")]


class Waves(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x) + torch.exp(x) * torch.sigmoid(x)


def test_a_symbolic_function_that_is_wrong_is_found(monkeypatch):
    wrong = {"aten::tanh": lambda g, x: g.op("Sin", x)}
    monkeypatch.setattr("opgraft.torch._traced._traced_grafts.CORRECTIONS", wrong)
    program = export(Waves(), torch.rand(3))
    rows = {row.operator.partition(".")[0]: row for row in program.report.rows}
    assert rows["aten::tanh"].became == "Tanh" and "differ" in rows["aten::tanh"].because
    assert not rows["aten::exp"].because and not rows["aten::sigmoid"].because
    assert _traced_corrections.CORRECTIONS is not wrong


def test_names_and_structures():
    class Nested(torch.nn.Module):
        def forward(self, pair, *, scale):
            return {"sum": (pair["a"] + pair["b"][0]) * scale, "parts": [pair["a"], None, 3]}

    x, y = torch.rand(2), torch.rand(2)
    options = {"kwargs": {"scale": 2}, "dynamo": False}
    program = opgraft.torch.export(Nested(), ({"a": x, "b": [y]},), **options)
    graph = program.model.graph
    assert [one.name for one in graph.inputs] == ["pair_a", "pair_b_0"]
    assert graph.outputs[0].name == "sum"
    torch.testing.assert_close(program({"a": y, "b": [y]}, scale=2)[0], 4 * y)
    with pytest.raises(TypeError, match="the export has fixed 'scale' as 2; it cannot be 3"):
        program({"a": x, "b": [y]}, scale=3)
    with pytest.raises(TypeError, match="do not have the structure"):
        program(x)


def test_it_is_saved_and_loaded(tmp_path):
    path = tmp_path / "model.onnx"
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()).eval()
    opgraft.torch.export(model, (torch.rand(4, 3),), path, dynamo=False, output_names=["y"])
    stored = onnx.load(path)
    assert {one.name for one in stored.graph.initializer} >= {"0.bias"}
    session = opgraft.InferenceSession(path)
    x = torch.rand(4, 3)
    np.testing.assert_allclose(
        session.run(["y"], {"input": x.numpy()})[0], model(x).detach(), rtol=1e-5
    )


def test_where_both_ways_fail_both_are_told():
    class Neither(Packed):
        def forward(self, x, lengths):
            return self.gru(pack_padded_sequence(x, lengths, batch_first=True))[0].data

    both = "(?s)cannot capture.*tracing exporter was tried too.*in pairs"
    with pytest.raises(opgraft.Error, match=both):
        opgraft.torch.export(
            Neither().eval(), (torch.rand(2, 2, 3), torch.tensor([2, 1])), fallback="none"
        )
    # A model that decides by data does so either way.
    with pytest.raises(opgraft.ModelError) as caught:
        opgraft.torch.export(Branch(), (torch.rand(3),))
    assert "tried" not in str(caught.value)


def test_a_given_program_is_not_traced():
    program = torch.export.export(torch.nn.ReLU(), (torch.rand(2),))
    with pytest.raises(opgraft.Error, match="captured already"):
        opgraft.torch.export(program, dynamo=False)


def test_no_warning_of_torchs_own():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export(Select(), torch.randn(4, 3))


def test_a_translation_that_holds_near_the_example_alone() -> None:
    """exp(x * x) * erfc(x) for erfcx, until an x is 10: as in captured programs, the next rung."""
    program = opgraft.torch.export(
        torch.special.erfcx, (torch.rand(4),), dynamo=False, progress=False
    )
    assert [(row.operator, row.kind) for row in program.report.rows] == [
        ("aten::special_erfcx", "aten")
    ]
    hard = torch.tensor([-1.0, 0.0, 10.0, 100.0])
    torch.testing.assert_close(program(hard)[0], torch.special.erfcx(hard))


class Unused(torch.nn.Module):
    def forward(self, x, y, z):
        return y * 2


def test_arguments_that_nothing_uses_are_inputs_too():
    args = torch.rand(3, 4), torch.rand(2, 2), torch.tensor([1, 2])
    sizes = ({0: "a"}, None, {0: "b"})
    program = opgraft.torch.export(Unused(), args, dynamo=False, dynamic_shapes=sizes)
    shapes = {one.name: [str(size) for size in one.shape] for one in program.model.graph.inputs}
    assert shapes == {"x": ["a", "4"], "y": ["2", "2"], "z": ["b"]}
    check(program, Unused(), torch.rand(5, 4), args[1], torch.tensor([3]))


def test_a_trace_that_fails_prints_nothing(capfd):
    with pytest.raises(opgraft.Error, match="Fix: "):
        opgraft.torch.export(
            torch.special.bessel_j0, (torch.rand(3),), dynamo=False, fallback="none"
        )
    assert capfd.readouterr().out == ""


class BySize(torch.nn.Module):
    def forward(self, x):
        return x * {7: 2.0}.get(x.shape[0], 3.0)


class BySizeOfData(torch.nn.Module):
    def forward(self, x):
        return x * {1: 2.0}.get(x[x > 0].shape[0], 3.0)


def test_a_size_that_is_looked_up_is_told():
    # A size is a tensor in a trace, which no dictionary has.
    report = export(BySize(), torch.ones(4, 3), dynamic_shapes=({0: "batch"},)).report
    assert any("ask for sizes" in note and "{7: 2.0}" in note for note in report.notes)
    with pytest.raises(opgraft.ModelError, match="decides by data") as caught:
        export(BySizeOfData(), torch.tensor([1.0, -2, 3]))
    assert "{1: 2.0}" in str(caught.value)
