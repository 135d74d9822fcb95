"""Preparing a model, registering session options, and models with external weights."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import opgraft
from conftest import (
    DOUBLE,
    FLOAT,
    Write,
    floats,
    pyop_model,
    save_with_external_weight,
    tells_the_folder,
)


def test_a_model_without_our_operators_is_as_before(tmp_path: Path) -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    values = [helper.make_tensor_value_info(name, FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([node], "graph", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    prepared = opgraft.prepare(model)
    assert prepared.bytes == model.SerializeToString()
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    assert opgraft.prepare(path).path == str(path)
    (result,) = opgraft.InferenceSession(path).run(None, {"x": floats(2)})
    np.testing.assert_array_equal(result, [0, 2])


def test_a_prepared_model_runs_in_a_plain_session(write_module: Write, tmp_path: Path) -> None:
    module = write_module(DOUBLE)
    path = tmp_path / "model.onnx"
    onnx.save(pyop_model(module), path)
    prepared = opgraft.prepare(str(path))
    assert prepared.folder == str(tmp_path)
    assert prepared.report == (opgraft.PythonOperator("node", module, "Op"),)
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=[module])
    session = onnxruntime.InferenceSession(prepared.bytes, options)
    np.testing.assert_array_equal(session.run(None, {"x": floats(3)})[0], [0, 2, 4])


def test_preparing_again_changes_nothing(write_module: Write) -> None:
    prepared = opgraft.prepare(pyop_model(write_module(DOUBLE)))
    again = opgraft.prepare(prepared.bytes)
    assert again.bytes == prepared.bytes
    assert again.report == prepared.report


@tells_the_folder
def test_external_data_is_found(write_module: Write, tmp_path: Path) -> None:
    module = write_module(DOUBLE)
    path = save_with_external_weight(pyop_model(module, inputs=("weight",)), tmp_path, 1)
    (result,) = opgraft.InferenceSession(path, allow=[module]).run(None, {})
    np.testing.assert_array_equal(result, np.full(1000, 2, np.float32))


@tells_the_folder
def test_external_data_is_that_of_the_model_at_hand(write_module: Write, tmp_path: Path) -> None:
    """One set of options for models in three folders, each with a file of the same name."""
    module = write_module(DOUBLE)
    options = onnxruntime.SessionOptions()
    sessions = []
    for number in (1, 2, 3):
        model = pyop_model(module, inputs=("weight",))
        if number == 2:  # a model that needs no preparing
            model.graph.node[0].CopyFrom(helper.make_node("Add", ["weight", "weight"], ["y"]))
            model.ir_version, model.opset_import[0].version = 10, 21
        (tmp_path / str(number)).mkdir()
        path = save_with_external_weight(model, tmp_path / str(number), number)
        sessions.append(opgraft.InferenceSession(path, options, allow=[module]))
        assert sessions[-1].run(None, {})[0][0] == 2 * number
    for number, session in enumerate(sessions, 1):
        session.set_providers(["CPUExecutionProvider"])  # makes the session again
        assert session.run(None, {})[0][0] == 2 * number


@tells_the_folder
def test_external_data_in_a_plain_session(write_module: Write, tmp_path: Path) -> None:
    module = write_module(DOUBLE)
    path = save_with_external_weight(pyop_model(module, inputs=("weight",)), tmp_path, 1)
    prepared = opgraft.prepare(path)
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=[module], folder=prepared.folder)
    session = onnxruntime.InferenceSession(prepared.bytes, options)
    assert session.run(None, {})[0][0] == 2


def test_external_data_and_a_runtime_that_cannot_be_told_where_it_lies(tmp_path: Path) -> None:
    path = save_with_external_weight(pyop_model("m", inputs=("weight",)), tmp_path, 1)
    for runtime, needs_file in {"1.21.0": True, "1.21.1": False, "1.31.1": False}.items():
        assert opgraft.prepare(path, runtime=runtime).needs_file == needs_file


def test_a_prepared_model_with_external_data_is_saved_beside_it(tmp_path: Path) -> None:
    path = save_with_external_weight(pyop_model("m", inputs=("weight",)), tmp_path, 1)
    prepared = opgraft.prepare(path)
    prepared.save(tmp_path / "prepared.onnx")
    (tmp_path / "other").mkdir()
    with pytest.raises(opgraft.ModelError, match="weights are in files in"):
        prepared.save(tmp_path / "other" / "prepared.onnx")


def test_the_runtimes_own_format(tmp_path: Path) -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    values = [helper.make_tensor_value_info(name, FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([node], "graph", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "model.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    session = opgraft.InferenceSession(tmp_path / "model.ort")
    np.testing.assert_array_equal(session.run(None, {"x": floats(2)})[0], [0, 2])


def test_a_registration_that_failed_can_be_made_good(write_module: Write) -> None:
    module = write_module(DOUBLE)
    options = onnxruntime.SessionOptions()
    for _ in range(2):
        with pytest.raises(opgraft.Error, match="is neither the name of a Python module"):
            opgraft.register(options, allow=["*"])
    with pytest.raises(opgraft.Error, match="refuses opgraft.allow"):
        opgraft.register(options, allow=[f"{'long' * 100}_{number}" for number in range(100)])
    opgraft.register(options, allow=[module])
    session = onnxruntime.InferenceSession(opgraft.prepare(pyop_model(module)).bytes, options)
    assert session.run(None, {"x": floats(2)})[0][1] == 2


def test_one_set_of_options_serves_many_sessions(write_module: Write) -> None:
    module = write_module(DOUBLE)
    options = onnxruntime.SessionOptions()
    for _ in range(3):
        session = opgraft.InferenceSession(pyop_model(module), options, allow=[module])
        np.testing.assert_array_equal(session.run(None, {"x": floats(2)})[0], [0, 2])


def test_options_have_one_policy(write_module: Write) -> None:
    options = onnxruntime.SessionOptions()
    opgraft.register(options, allow=["one"])
    opgraft.register(options, allow=["one", "one"])
    opgraft.register(options)
    with pytest.raises(opgraft.Error, match=r"already registered with allow=\['one'\]"):
        opgraft.register(options, allow=["other"])
    assert options.get_session_config_entry("opgraft.allow") == "one"
    options.register_custom_ops_library(opgraft.library_path())  # has no effect either
    session = opgraft.InferenceSession(pyop_model(write_module(DOUBLE, name="one")), options)
    assert session.run(None, {"x": floats(2)})[0][1] == 2


@pytest.mark.parametrize("allow", [None, 5, b"bytes", [sys], [None]])
def test_allow_given_wrongly(allow: object) -> None:
    with pytest.raises(TypeError, match=r'expected names of modules, such as \["mymodule"\], not'):
        opgraft.register(onnxruntime.SessionOptions(), allow=allow)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected onnxruntime.SessionOptions, not list"):
        opgraft.InferenceSession(pyop_model("m"), ["m"])
