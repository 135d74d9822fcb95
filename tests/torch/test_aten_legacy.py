"""Models of torch's own legacy fallback, ONNX_ATEN_FALLBACK, run as they are."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import opgraft

torch = pytest.importorskip("torch", reason="ATen nodes need torch")


def export(function: Callable[..., Any], *arguments: Any) -> onnx.ModelProto:
    class Module(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, *values: Any) -> Any:
            return function(*values)

    written = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Module(),
            arguments,
            written,
            dynamo=False,
            operator_export_type=torch.onnx.OperatorExportTypes.ONNX_ATEN_FALLBACK,
            opset_version=17,
        )
    return onnx.load_from_string(written.getvalue())


MATRIX = torch.eye(3) + torch.rand(3, 3, generator=torch.Generator().manual_seed(1))

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "inv": torch.linalg.inv,
    "svd": torch.linalg.svd,
    "cumprod": lambda x: torch.cumprod(x, 0),
    "lgamma": torch.lgamma,
    "median": lambda x: torch.median(x, 1),
    "kthvalue": lambda x: torch.kthvalue(x, 2, 1),
    "nuclear norm": lambda x: torch.linalg.norm(x, ord="nuc"),
    "searchsorted": lambda x: torch.searchsorted(x, x, right=True),
    "block_diag": lambda x: torch.block_diag(x, x),
    "logcumsumexp": lambda x: torch.logcumsumexp(x, 1),
    "nanmedian": torch.nanmedian,
    "polygamma": lambda x: torch.polygamma(2, x),
    "after another": lambda x: torch.lgamma(torch.linalg.inv(x)) + x,
    "indices go on": lambda x: torch.gather(x, 1, torch.kthvalue(x, 2, 1, True).indices),
    "type": lambda x: torch.cumprod(x, 0, dtype=torch.float64),
    "cummax": lambda x: torch.cummax(x, 1),
    "list of sizes": lambda x: torch.special.airy_ai(x).roll((1, 2), (0, 1)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_runs(name: str) -> None:
    model = export(FUNCTIONS[name], MATRIX)
    nodes = [node for node in model.graph.node if node.domain == "org.pytorch.aten"]
    assert nodes
    assert all(one.name != "encoding" for node in nodes for one in node.attribute)
    session = opgraft.InferenceSession(model)
    expected = FUNCTIONS[name](MATRIX)
    expected = [expected] if isinstance(expected, torch.Tensor) else expected
    got = session.run(None, {session.get_inputs()[0].name: MATRIX.numpy()})
    for one, value in zip(got, expected, strict=True):
        assert one.dtype == value.numpy().dtype
        np.testing.assert_allclose(one, value.numpy(), rtol=1e-4, atol=1e-5)


def parse(body: str, outputs: str = "float[n, m] y") -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17, "org.pytorch.aten": 1]>'
        f"graph (float[n, m] x) => ({outputs}) {{ {body} }}"
    )


def run(model: onnx.ModelProto) -> list[np.ndarray]:
    return opgraft.InferenceSession(model).run(None, {"x": MATRIX.numpy()})  # type: ignore[no-any-return]


def test_arguments_that_are_attributes() -> None:
    """As symbolic functions write them: g.at("cumprod", x, dim_i=1)."""
    (got,) = run(parse('y = org.pytorch.aten.ATen <operator = "cumprod", dim = 1> (x)'))
    np.testing.assert_allclose(got, np.cumprod(MATRIX.numpy(), 1), rtol=1e-6)
    attributes = 'operator = "roll", shifts = [1, 2], dims = [0, 1]'
    (got,) = run(parse(f"y = org.pytorch.aten.ATen <{attributes}> (x)"))
    np.testing.assert_array_equal(got, np.roll(MATRIX.numpy(), (1, 2), (0, 1)))
    attributes = 'operator = "linalg_norm", overload_name = "ord_str", ord = "fro"'
    (got,) = run(parse(f"y = org.pytorch.aten.ATen <{attributes}> (x)", "float y"))
    np.testing.assert_allclose(got, np.linalg.norm(MATRIX.numpy()), rtol=1e-6)


def test_numbers_that_are_computed() -> None:
    """One that is no constant is read in each run."""
    body = """s = Shape (x)  i = Constant <value_int = 0> ()  n = Gather (s, i)
        two = Constant <value = int64 {2}> ()  k = Sub (n, two)
        d = Constant <value = int64 {1}> ()  keep = Constant <value = bool {0}> ()
        y, j = org.pytorch.aten.ATen <operator = "kthvalue"> (x, k, d, keep)"""
    values, indices = run(parse(body, "float[n] y, int64[n] j"))
    expected = torch.kthvalue(MATRIX, 1, 1)
    np.testing.assert_array_equal(values, expected.values.numpy())
    np.testing.assert_array_equal(indices, expected.indices.numpy())
    body = """r = Constant <value = int64[2] {2, 1}> ()  two = Constant <value = int64 {1}> ()
        t = Mul (r, two)  y = org.pytorch.aten.ATen <operator = "tile"> (x, t)"""
    (got,) = run(parse(body))
    np.testing.assert_array_equal(got, np.tile(MATRIX.numpy(), (2, 1)))


def test_nothing_fits() -> None:
    for body, says in (
        ('y = org.pytorch.aten.ATen <operator = "no_such"> (x)', "there is no such operator"),
        ('y = org.pytorch.aten.ATen <operator = "lgamma"> (x, x)', "fit none of aten::lgamma"),
        ('y = org.pytorch.aten.ATen <operator = "kthvalue"> (x)', "fit none of aten::kthvalue"),
        ("y = org.pytorch.aten.ATen (x)", "there is no such operator"),
        ("y = org.pytorch.aten.relu_ (x)", "there is no such operator"),
    ):
        with pytest.raises(opgraft.ModelError, match=says) as caught:
            run(parse(body))
        assert "'" in str(caught.value)


def test_a_type_that_was_guessed_wrong_is_an_error() -> None:
    body = 't = org.pytorch.aten.ATen <operator = "is_complex_or_not"> (x)  y = Neg (t)'
    with pytest.raises(opgraft.ModelError):
        run(parse(body))
    body = 't = org.pytorch.aten.ATen <operator = "fft_fft"> (x)  y = Neg (t)'
    with pytest.raises(opgraft.ModelError, match="is complex64, but the node's attribute"):
        run(parse(body))


def test_the_policy_holds() -> None:
    with pytest.raises(opgraft.PolicyError, match="aten::sigmoid_backward"):
        run(parse('y = org.pytorch.aten.ATen <operator = "sigmoid_backward"> (x, x)'))


def test_preparing_twice_changes_nothing() -> None:
    once = opgraft.prepare(export(torch.linalg.inv, MATRIX)).bytes
    assert opgraft.prepare(once).bytes == once
