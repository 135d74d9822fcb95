"""dynamo_export, its options, and what can be done with the program that it gives."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from read_once import functions_read_once  # noqa: F401

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402
from opgraft.torch import (  # noqa: E402
    DiagnosticOptions,
    ExportOptions,
    ONNXRuntimeOptions,
    dynamo_export,
    enable_fake_mode,
)

X = torch.linspace(-2, 2, 12).reshape(4, 3)


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.linear(x)


def nested(by_name: dict[str, Any], pair: tuple[Any, Any], scale: float = 1.0, last: Any = None):
    y, z = pair
    total = by_name["a"] * scale + y
    total = total if z is None else total + z
    return {"first": total, "more": [total + 1, None]}, total if last is None else last * 2


def shapes(program: Any) -> list[list[Any]]:
    return [
        [size.dim_param or size.dim_value for size in value.type.tensor_type.shape.dim]
        for value in program.model_proto.graph.input
    ]


@pytest.fixture(scope="module")
def structured() -> Any:
    return dynamo_export(nested, {"a": X}, (X + 1, None), 3.0, last=torch.complex(X, X))


def test_inputs_are_adapted(structured: Any) -> None:
    z = torch.complex(X + 2, X)
    given = structured.adapt_torch_inputs_to_onnx({"a": X}, (X + 1, None), 3.0, last=z)
    right = (X, X + 1, torch.view_as_real(z))
    assert len(given) == len(structured.model_proto.graph.input) == 3
    for one, other in zip(given, right, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (({"a": X}, (X, None), 3.0), {}),
        (({"a": X}, (X, None), 3.0), {"first": X}),
        (({"b": X}, (X, None), 3.0), {"last": X}),
        ((X,), {"last": X}),
    ],
)
def test_inputs_of_another_structure_are_refused(structured: Any, args: Any, kwargs: Any) -> None:
    with pytest.raises(opgraft.Error, match="the structure of these arguments differs"):
        structured.adapt_torch_inputs_to_onnx(*args, **kwargs)


def test_what_the_export_has_fixed_stays(structured: Any) -> None:
    for pair, scale, name in (((X, X), 3.0, "pair_1"), ((X, None), 4.0, "scale")):
        with pytest.raises(opgraft.Error, match=f"has fixed '{name}' as .*; it cannot be"):
            structured.adapt_torch_inputs_to_onnx({"a": X}, pair, scale, last=X)


def test_outputs_are_adapted(structured: Any) -> None:
    outputs = nested({"a": X}, (X + 1, None), 3.0, last=torch.complex(X, X))
    given = structured.adapt_torch_outputs_to_onnx(outputs)
    ran = structured({"a": X}, (X + 1, None), 3.0, last=torch.complex(X, X))
    assert len(given) == len(ran) == 3
    for one, other in zip(given, ran, strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(opgraft.Error, match="has 4 outputs, but 1 were given"):
        structured.adapt_torch_outputs_to_onnx(X)


def test_named_arguments_in_any_order() -> None:
    program = dynamo_export(lambda x, y, z: x - y * z, X, y=X + 1, z=X + 2)
    given = program(X, z=X + 2, y=X + 1)[0]
    torch.testing.assert_close(given, X - (X + 1) * (X + 2))


def test_a_dictionary_as_last_argument() -> None:
    """torch.onnx.export takes it for named arguments."""
    program = dynamo_export(lambda y, values: y + values["a"], X, {"a": X + 1})
    torch.testing.assert_close(program(X, {"a": X + 1})[0], 2 * X + 1)


def test_what_a_program_is(structured: Any) -> None:
    assert isinstance(structured, torch.onnx.ONNXProgram)
    assert isinstance(structured.model_proto, onnx.ModelProto)
    assert [entry.version for entry in structured.model_proto.opset_import] == [18]
    signature = structured.model_signature
    assert isinstance(signature, torch.export.ExportGraphSignature)
    assert signature is structured.exported_program.graph_signature
    assert structured.fake_context is None
    for use in (lambda: structured.diagnostic_context, lambda: structured.save_diagnostics("a")):
        with pytest.raises(opgraft.UnavailableError, match="no longer writes SARIF logs"):
            use()


@pytest.mark.parametrize("how", ["str", "path", "file", "bytes"])
def test_saving(how: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = Linear()
    program = linear_program(model)
    if how == "file":
        with path.open("wb") as file:
            program.save(file)
    elif how == "bytes":
        buffer = io.BytesIO()
        program.save(buffer)
        path.write_bytes(buffer.getvalue())
    else:
        program.save(str(path) if how == "str" else path)
    assert list(tmp_path.iterdir()) == [path], "all of it is in one file"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.run(None, {"x": X.numpy()})
    np.testing.assert_allclose(given, model(X).detach(), rtol=1e-5, atol=1e-6)


def linear_program(model: Any) -> Any:
    """Exported once, then given each model's weights."""
    if not hasattr(linear_program, "kept"):
        linear_program.kept = dynamo_export(Linear(), X)  # type: ignore[attr-defined]
    linear_program.kept.release()  # type: ignore[attr-defined]
    linear_program.kept.apply_weights(model.state_dict())  # type: ignore[attr-defined]
    return linear_program.kept  # type: ignore[attr-defined]


def test_saving_with_other_weights(tmp_path: Path) -> None:
    program, other = linear_program(Linear()), Linear()
    torch.save(other.state_dict(), tmp_path / "weights.pt")
    for state in (other.state_dict(), str(tmp_path / "weights.pt")):
        program.apply_weights(Linear().state_dict())
        program.save(tmp_path / "model.onnx", model_state=state)
        session = opgraft.InferenceSession(tmp_path / "model.onnx")
        (given,) = session.run(None, {"x": X.numpy()})
        np.testing.assert_allclose(given, other(X).detach(), rtol=1e-5, atol=1e-6)
    with pytest.raises(opgraft.Error, match="include_initializers=False leaves out"):
        program.save("model.onnx", include_initializers=False, model_state=other.state_dict())
    with pytest.raises(opgraft.Error, match="external_data needs a path"):
        program.save(io.BytesIO(), external_data=True)


def test_saving_without_weights(tmp_path: Path) -> None:
    linear_program(Linear()).save(tmp_path / "model.onnx", include_initializers=False)
    assert len(onnx.load(tmp_path / "model.onnx").graph.initializer) == 0


def test_a_call_with_options() -> None:
    program, other = linear_program(Linear()), Linear()
    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = 3
    given = program(
        X,
        model_with_state_dict=other,
        options=ONNXRuntimeOptions(
            session_options=session_options, execution_providers=["CPUExecutionProvider"]
        ),
    )
    torch.testing.assert_close(given[0], other(X).detach())
    assert program._inference_session.get_session_options().intra_op_num_threads == 3


def test_a_call_runs_operators_of_opgraft() -> None:
    """Which plain ONNX Runtime sessions do not."""
    name = "dynamo_export_test::Twice"

    @opgraft.op(name)
    def twice(x: np.ndarray) -> np.ndarray:
        return x + x

    registry = opgraft.torch.OnnxRegistry()
    registry.register_op(symbolic(name), "aten", "gelu")
    options = ExportOptions(onnx_registry=registry)
    program = dynamo_export(torch.nn.functional.gelu, X, export_options=options)
    torch.testing.assert_close(program(X)[0], X + X)


def symbolic(name: str) -> Callable[..., Any]:
    import onnxscript

    domain, operator = name.split("::")
    opset = onnxscript.values.Opset(domain, 1)
    schema = onnx.defs.get_schema(operator, 1, domain)
    return lambda x, **_: onnxscript.values.Op(opset, operator, schema)(x)


def test_dynamic_shapes() -> None:
    def function(x, more, *, scale):
        return x * scale + sum(more)

    args, kwargs = (X, (torch.ones(4, 1), torch.ones(3))), {"scale": torch.ones(4, 3)}
    fixed = dynamo_export(function, *args, **kwargs, export_options=ExportOptions())
    assert shapes(fixed) == [[4, 3], [4, 1], [3], [4, 3]]
    options = ExportOptions(dynamic_shapes=True)
    program = dynamo_export(function, *args, **kwargs, export_options=options)
    (n, m), *others = shapes(program)
    assert isinstance(n, str) and isinstance(m, str) and n != m
    assert others == [[n, 1], [m], [n, m]]  # what the model itself fixes is
    x = torch.rand(7, 5)
    given = program(x, (torch.ones(7, 1), torch.ones(5)), scale=torch.ones(7, 5))
    torch.testing.assert_close(given[0], x + 2)


def test_models_of_all_kinds() -> None:
    captured = torch.export.export(Linear(), (X,))
    program = dynamo_export(captured, X)
    torch.testing.assert_close(program(X)[0], captured.module()(X).detach())
    with pytest.raises(opgraft.Error, match="whose shapes are already fixed"):
        dynamo_export(captured, X, export_options=ExportOptions(dynamic_shapes=True))
    with pytest.raises(TypeError, match=r"expected a torch.nn.Module, a function or .*, not 3"):
        dynamo_export(3, X)


def test_fake_mode(tmp_path: Path) -> None:
    with enable_fake_mode() as fake_context:
        model, x = Linear(), torch.randn(4, 3)
    options = ExportOptions(fake_context=fake_context)
    program = dynamo_export(model, x, export_options=options)
    assert program.fake_context is fake_context
    real = Linear()
    program.save(tmp_path / "model.onnx", model_state=real.state_dict())
    (given,) = opgraft.InferenceSession(tmp_path / "model.onnx").run(None, {"x": X.numpy()})
    np.testing.assert_allclose(given, real(X).detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(program(X, model_with_state_dict=Linear())[0].shape, given.shape)
    with pytest.raises(opgraft.Error, match=r"pass its context, ExportOptions\(fake_context="):
        dynamo_export(model, x)
    with pytest.raises(opgraft.Error, match="some tensors have data"):
        dynamo_export(real, x, export_options=options)


def test_what_an_export_tells(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    options = ExportOptions(diagnostic_options=DiagnosticOptions(verbosity_level=logging.DEBUG))
    dynamo_export(torch.nn.ReLU().eval(), X, export_options=options)
    assert any(record.levelno == logging.DEBUG for record in caplog.records)
    assert logger.level == level
    options = ExportOptions(diagnostic_options=DiagnosticOptions(warnings_as_errors=True))
    with pytest.raises(UserWarning, match="in training mode"):
        dynamo_export(torch.nn.ReLU(), X, export_options=options)
    assert logger.level == level


def test_options_that_are_refused() -> None:
    with pytest.raises(opgraft.Error, match="op_level_debug is no longer supported"):
        ExportOptions(op_level_debug=True)
    assert ExportOptions(op_level_debug=False).op_level_debug is False
    with pytest.raises(TypeError, match="must be an opgraft.torch.OnnxRegistry, not 3"):
        ExportOptions(onnx_registry=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be an opgraft.torch.ExportOptions, not 3"):
        dynamo_export(torch.nn.ReLU(), X, export_options=3)  # type: ignore[arg-type]
