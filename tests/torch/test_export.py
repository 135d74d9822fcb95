"""opgraft.torch.export: the ladder for operators that ONNX lacks, and its arguments."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install opgraft[torch]")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install opgraft[torch]")

import opgraft.torch  # noqa: E402
from opgraft.torch import _private  # noqa: E402

X = torch.rand(3, 3, generator=torch.Generator().manual_seed(0)) + torch.eye(3)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def kinds(program: Any) -> dict[str, str]:
    return {row.operator: row.kind for row in program.report.rows}


def domains(program: Any) -> set[str]:
    return {node.domain for node in program.model_proto.graph.node}


def test_only_the_missing_operator_changes() -> None:
    """What torch can translate stays standard ONNX; the rest is one node."""

    def model(x):
        return torch.relu(x @ x) + torch.linalg.svdvals(x)

    program = opgraft.torch.export(model, (X,))
    assert [node.op_type for node in program.model_proto.graph.node] == [
        "MatMul",
        "Relu",
        "ATen",
        "Add",
    ]
    assert kinds(program)["aten::linalg_svdvals"] == "aten"
    torch.testing.assert_close(program(X)[0], model(X))
    onnx.checker.check_model(program.model_proto)


def test_a_model_that_torch_exports_is_the_same() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.LayerNorm(4))
    theirs = torch.onnx.export(model.eval(), (X,), dynamo=True, verbose=False)
    ours = opgraft.torch.export(model, (X,))
    for graph in (theirs.model_proto.graph, ours.model_proto.graph):
        for node in graph.node:
            del node.metadata_props[:]
    assert list(ours.model_proto.graph.node) and domains(ours) == {""}
    assert [(node.op_type, list(node.input)) for node in ours.model_proto.graph.node] == [
        (node.op_type, list(node.input)) for node in theirs.model_proto.graph.node
    ]
    assert ours.report.is_portable and set(kinds(ours).values()) == {"standard"}


def test_a_function_needs_nothing_installed(tmp_path: Path) -> None:
    """lgamma is a function of standard ONNX; a plain session runs it."""
    path = tmp_path / "model.onnx"
    program = opgraft.torch.export(torch.lgamma, (X,), path)
    assert kinds(program) == {"aten::lgamma": "function"} and program.report.is_portable
    session = onnxruntime.InferenceSession(path)
    (got,) = session.run(None, {session.get_inputs()[0].name: X.numpy()})
    np.testing.assert_allclose(got, torch.lgamma(X).numpy(), rtol=1e-6)


def test_what_the_runtime_has_itself() -> None:
    """torch.inverse and torch.linalg.inv are captured by different names. In a process of its own,
    since packs stay that another test has loaded."""
    code = """if True:
        import onnxruntime, opgraft.torch, torch
        x = torch.tensor([[2.0, 1], [1, 3]])
        for inverse in (torch.inverse, torch.linalg.inv):
            program = opgraft.torch.export(lambda x, inverse=inverse: inverse(x), (x,))
            (row,) = program.report.rows
            assert row.kind == "pack" and "com.microsoft::Inverse" in row.became, row
            assert program.report.is_portable
            session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
            (got,) = session.run(None, {"x": x.numpy()})
            assert torch.allclose(torch.from_numpy(got), torch.inverse(x))
        complex_ = opgraft.torch.export(lambda x: torch.inverse(x.to(torch.complex64)).real, (x,))
        assert "aten" in [row.kind for row in complex_.report.rows]  # Inverse has no complex ones
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_operator_of_a_pack() -> None:
    """What `.Torch(...)` of a loaded pack says; in a process of its own, since packs stay."""
    code = """if True:
        import opgraft.torch, torch
        from opgraft._base import _library
        (path,) = [p for p in _library.shipped_packs() if opgraft.load(p).operators]
        program = opgraft.torch.export(lambda x: torch.linalg.inv(x) @ x, (torch.eye(3) * 2,))
        row = next(row for row in program.report.rows if row.kind == "pack")
        assert row.became == "com.microsoft::Inverse", row
        assert list(map(str, program.report.packs)) == [str(path)], program.report.packs
        assert "opgraft.load(" in str(program.report)
        x = torch.eye(3, dtype=torch.complex64)
        other = opgraft.torch.export(lambda x: torch.linalg.inv(x).real, (x,))
        assert {row.kind for row in other.report.rows} == {"aten", "standard"}, other.report
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_users_own_operator_comes_first(
    write_module: Any, module_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that says by torch= what it stands for beats functions of ours. In a process of its own,
    since what is declared stays."""
    name = write_module(
        """
        from math import lgamma
        import opgraft

        @opgraft.op("answers::Gamma", shape=lambda x: x, torch="aten::lgamma")
        def gamma(x: np.ndarray) -> np.ndarray:
            return np.vectorize(lgamma, otypes=[x.dtype])(x)
        """
    )
    code = f"""if True:
        import {name}, opgraft.torch, torch
        x = torch.rand(3) + 1
        program = opgraft.torch.export(torch.lgamma, (x,))
        (row,) = program.report.rows
        assert (row.kind, row.became) == ("operator", "answers::Gamma"), row
        assert program.report.allow == ["{name}"] and not program.report.is_portable
        torch.testing.assert_close(program(x)[0], torch.lgamma(x))
        without = opgraft.torch.export(torch.lgamma, (x,), fallback="function")
        assert [row.kind for row in without.report.rows] == ["function"]
    """
    monkeypatch.setenv("PYTHONPATH", str(module_folder))
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_translation_of_the_users() -> None:
    from onnxscript import opset18 as op

    def twice(x: Any) -> Any:
        return op.Add(x, x)

    program = opgraft.torch.export(
        lambda x: torch.linalg.matrix_exp(x),
        (X,),
        custom_translation_table={torch.ops.aten.linalg_matrix_exp.default: twice},
        verify=False,
    )
    assert kinds(program) == {"aten::linalg_matrix_exp": "user"}
    torch.testing.assert_close(program(X)[0], X + X)
    with pytest.raises(opgraft.Error, match="aten::linalg_matrix_exp .*its result is wrong"):
        opgraft.torch.export(
            lambda x: torch.linalg.matrix_exp(x),
            (X,),
            custom_translation_table={torch.ops.aten.linalg_matrix_exp.default: twice},
        )


def test_kinds_can_be_forbidden() -> None:
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.lgamma(x) + torch.geqrf(x)[1].sum()

    model = Model()
    with pytest.raises(opgraft.UnavailableError, match=r"aten::geqrf .*line \d+.*custom_trans"):
        opgraft.torch.export(model, (X,), fallback=("function", "pack"))
    with pytest.raises(opgraft.UnavailableError, match=r"lgamma.*\(none\).*fallback=\"auto\""):
        opgraft.torch.export(torch.lgamma, (X,), fallback="none")
    program = opgraft.torch.export(model, (X,), fallback="aten")
    assert [k for k in kinds(program).values() if k != "standard"] == ["aten", "aten"]
    with pytest.raises(opgraft.Error, match="expected .*, not 'atne'"):
        opgraft.torch.export(model, (X,), fallback="atne")


def test_sizes_that_are_open() -> None:
    def model(x):
        return torch.cumprod(x, 0), torch.linalg.svdvals(x), x.shape[0] * 2

    program = opgraft.torch.export(model, (X,), dynamic_shapes=({0: "batch"},))
    assert program.model.graph.inputs[0].shape[0].value == "batch"
    assert program.report.verified == [
        "the given arguments",
        "other sizes (batch=7)",
        "other sizes (batch=1)",
    ]
    for rows in (1, 2, 7):
        x = torch.rand(rows, 3)
        got = program(x)
        torch.testing.assert_close(got[0], model(x)[0])
        torch.testing.assert_close(got[1], model(x)[1])
        assert got[2].item() == 2 * rows


def test_bodies_of_control_flow() -> None:
    def model(x):
        return torch.cond(x.sum() > 0, torch.linalg.svdvals, lambda x: x.median(0)[0], (x,))

    program = opgraft.torch.export(model, (X,))
    for x in (X, -X):
        torch.testing.assert_close(program(x)[0], model(x))


def test_several_results_lists_and_complex_numbers() -> None:
    def model(x, z):
        return *torch.linalg.svd(x), *torch.histogramdd(x, [2, 2, 2])[1], torch.linalg.inv(z)

    z = torch.complex(X, X.T)
    program = opgraft.torch.export(model, (X, z))
    for got, wanted in zip(program(X, z), model(X, z), strict=True):
        wanted = torch.view_as_real(wanted) if wanted.is_complex() else wanted
        torch.testing.assert_close(got, wanted)


def test_arguments_by_name_and_constants() -> None:
    def model(x, n, *, y=None, flag=True):
        return (torch.lgamma(x) * n + y, 3) if flag else x

    named = {"y": X, "flag": True}
    program = opgraft.torch.export(model, (X, 2), kwargs=named)
    assert len(program.model.graph.inputs) == 2 and len(program.model.graph.outputs) == 1
    (got,) = program(X, 2, flag=True, y=X)
    torch.testing.assert_close(got, model(X, 2, **named)[0])


def test_names_opsets_and_files(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    program = opgraft.torch.export(
        torch.nn.Linear(3, 2),
        X,
        path,
        input_names=["input"],
        output_names=["result"],
        opset_version=21,
        external_data=False,
    )
    model = onnx.load(path)
    assert [one.name for one in (*model.graph.input, *model.graph.output)] == ["input", "result"]
    assert model.opset_import[0].version == 21
    assert program.model_proto.graph.output[0].name == "result"
    assert [one.name for one in tmp_path.iterdir()] == ["model.onnx"]


def test_an_exported_program_is_taken_as_it_is() -> None:
    captured = torch.export.export(torch.nn.Linear(3, 2), (X,))
    program = opgraft.torch.export(captured)
    assert program.report.captured == "given" and program.report.verified
    torch.testing.assert_close(program(X)[0], captured.module()(X))


def test_a_model_without_data() -> None:
    """Weights that take no memory: exported, not verified; and given their data later."""
    with opgraft.torch.enable_fake_mode():
        model, x = torch.nn.Linear(3, 2), torch.rand(4, 3)
    program = opgraft.torch.export(model, (x,))
    assert program.report.notes == ["not verified: tensors of the model have no data"]
    real = torch.nn.Linear(3, 2)
    program.apply_weights(real.state_dict())
    torch.testing.assert_close(program(torch.ones(4, 3))[0], real(torch.ones(4, 3)))


def test_a_model_that_says_itself_how() -> None:
    if not hasattr(torch.onnx, "ExportableModule"):
        pytest.skip("this torch has no ExportableModule")

    class Model(torch.onnx.ExportableModule):
        def forward(self, x):
            return torch.lgamma(x)

        def example_arguments(self):
            return (X,), None

        def input_names(self):
            return ("x",)

        def output_names(self):
            return ("y",)

        def dynamic_shapes(self):
            return ({0: "n"},)

    program = opgraft.torch.export(Model())
    assert program.report.verified[1:] == ["other sizes (n=7)", "other sizes (n=1)"]
    assert [one.name for one in program.model.graph.outputs] == ["y"]


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match="dynamic_axes.*dynamic_shapes"):
        opgraft.torch.export(torch.lgamma, (X,), dynamic_axes={})
    with pytest.raises(TypeError, match="no argument 'optimise'"):
        opgraft.torch.export(torch.lgamma, (X,), optimise=True)
    with pytest.raises(TypeError, match="expected a torch.nn.Module, not str"):
        opgraft.torch.export("model", (X,))
    with pytest.raises(opgraft.ModelError, match="cannot capture.*allclose(.|\n)*Fix"):
        opgraft.torch.export(lambda x: torch.allclose(x, x), (X,))


def test_what_torch_cannot_decompose_is_kept_whole() -> None:
    """And nothing else: hardshrink, which has no translation either, is decomposed."""

    def model(x):
        return torch.diagonal_scatter(torch.nn.functional.hardshrink(x), x[0])

    program = opgraft.torch.export(model, (X,))
    kind = kinds(program)
    assert kind.pop("aten::diagonal_scatter") == "function"
    assert set(kind.values()) == {"standard"} and "aten::hardshrink" not in kind
    torch.testing.assert_close(program(X)[0], model(X))


def test_what_no_aten_node_can_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """While exporting, not where the model is opened."""
    from opgraft import _pyop

    monkeypatch.setattr(_pyop, "aten_is_listed", lambda name: None)
    with pytest.raises(opgraft.UnavailableError, match="aten::geqrf .*no allowed fallback"):
        opgraft.torch.export(torch.geqrf, (X,), verify=False)


def test_what_a_host_must_allow_by_name() -> None:
    """Operators that take their arguments on trust; the report says so."""

    def model(x):
        return torch.ops.aten._cdist_backward(x, x, x, 2.0, torch.cdist(x, x))

    program = opgraft.torch.export(model, (X,))
    assert program.report.allow == ["aten::_cdist_backward"]
    assert "allow=['aten::_cdist_backward']" in str(program.report)
    with pytest.raises(opgraft.PolicyError, match="_cdist_backward"):
        opgraft.InferenceSession(program.model_proto)


def test_operators_without_a_fake_function() -> None:
    """Shapes of ours let torch.export capture them; eager results are not made of these."""
    program = opgraft.torch.export(lambda x: (torch.cov(x), torch.linalg.lstsq(x, x)[0]), (X,))
    assert {"aten::cov", "aten::linalg_lstsq"} <= kinds(program).keys()
    # Not because verification finds that the stand-in is wrong.
    plain = opgraft.torch.export(lambda x: torch.cov(x), (X,), verify=False)
    assert kinds(plain) == {"aten::cov": "function"}
    for start in (1, -2):
        begin = torch.tensor(start)
        narrow = opgraft.torch.export(lambda x, i: torch.narrow(x, 0, i, 2), (X, begin))
        torch.testing.assert_close(narrow(X, begin)[0], X[1:])
        assert narrow.report.is_portable
    torch.testing.assert_close(program(X)[0], torch.cov(X))
    torch.testing.assert_close(torch.cov(X), torch.from_numpy(np.cov(X.numpy())).float())


def test_two_threads_at_once() -> None:
    """Each export chooses for itself, and torch's own is left alone."""
    from torch.onnx._internal.exporter import _dispatching

    before = _dispatching.dispatch
    results: dict[str, Any] = {}

    def export(name: str, function: Any) -> None:
        results[name] = kinds(opgraft.torch.export(function, (X,), verify=False))

    threads = [
        threading.Thread(target=export, args=("a", lambda x: torch.geqrf(x))),
        threading.Thread(target=export, args=("b", lambda x: torch.lgamma(x))),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {"a": {"aten::geqrf": "aten"}, "b": {"aten::lgamma": "function"}}
    assert _dispatching.dispatch is before


def test_torch_registers_kernels_as_before_after_an_export() -> None:
    opgraft.torch.export(torch.relu, (X,))
    own = torch._ops.OpOverload
    assert "py_impl" not in vars(own) and own.py_impl is torch._ops.OperatorBase.py_impl


def test_registries_are_copies() -> None:
    """What one export adds does not stay for the next."""
    one = _private.new_registry(18)
    _private.keep_whole(one, torch.ops.aten.median.default)
    assert not _private.new_registry(18).is_registered(torch.ops.aten.median.default)


def test_custom_opsets(tmp_path: Path) -> None:
    """The model that is saved imports them, as torch.onnx.export's does."""
    program = opgraft.torch.export(
        torch.linalg.inv, (torch.eye(3),), tmp_path / "m.onnx", custom_opsets={"com.microsoft": 5}
    )
    imports = {one.domain: one.version for one in onnx.load(tmp_path / "m.onnx").opset_import}
    assert imports["com.microsoft"] == 5
    torch.testing.assert_close(program(2 * torch.eye(3))[0], torch.eye(3) / 2)
    with pytest.raises(opgraft.Error, match="its version is opset_version"):
        opgraft.torch.export(torch.relu, (X,), custom_opsets={"": 5})
    with pytest.warns(UserWarning, match="no operator of the domain 'absent'") as warned:
        opgraft.torch.export(torch.relu, (X,), custom_opsets={"absent": 5})
    assert warned[-1].filename == __file__
