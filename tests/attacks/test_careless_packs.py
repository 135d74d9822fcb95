"""Packs by hand that report an error and go on as if nothing were, or declare an operator twice."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest

import opgraft
from conftest import graph_model
from opgraft._base._library import runner_path, runtime_library
from packs import build_c_library

# Each operator calls `fail` where its name says, twice, asks on, and returns 0.
SOURCE = """
#include <opgraft/c_api.h>
#include <stdlib.h>
#include <string.h>

#define FAIL(host) \\
  do { \\
    const OpgraftError first = {1, {"the cause", 9}}; \\
    const OpgraftError second = {1, {"a consequence", 13}}; \\
    (host)->table->fail(host, &first); \\
    (host)->table->fail(host, &second); \\
  } while (0)

static int destroyed = 0;
int count_destroyed(void) { return destroyed; }

static int Create(const OpgraftKernel* kernel, OpgraftNode* node, void** state) {
  OpgraftTensor constant;
  (void)kernel;
  *state = malloc(1);
  return node->table->constant(node, 0, &constant);
}
static int CreateAndFail(const OpgraftKernel* kernel, OpgraftNode* node, void** state) {
  FAIL(node);
  return Create(kernel, node, state);
}
static int Compute(void* state, OpgraftCall* call) {
  OpgraftTensor x, y;
  (void)state;
  if (call->table->input(call, 0, &x)) return 1;
  if (call->table->output(call, 0, x.shape, x.rank, &y)) return 1;
  memset(y.data, 0, sizeof(float) * (x.rank ? x.shape[0] : 1));
  return 0;
}
static int ComputeAndFail(void* state, OpgraftCall* call) {
  FAIL(call);
  return Compute(state, call);
}
static int InferAndFail(const OpgraftOperator* self, OpgraftInference* host) {
  (void)self;
  FAIL(host);
  return 0;
}
static void Destroy(void* state) { free(state); ++destroyed; }

const OpgraftPack* opgraft_pack(void) {
  static const int32_t float32[] = {1};
  static const OpgraftType type = {"T", "", float32, 1, 1};
  static const OpgraftParameter x = {"x", "", OPGRAFT_REQUIRED, 0, 1};
  static const OpgraftParameter y = {"y", "", OPGRAFT_REQUIRED, 0, 1};
  static const OpgraftKernel creating = {"cpu", float32, CreateAndFail, Compute, Destroy, NULL};
  static const OpgraftKernel computing = {"cpu", float32, Create, ComputeAndFail, Destroy, NULL};
  static const OpgraftKernel fine = {"cpu", float32, Create, Compute, Destroy, NULL};
  static const OpgraftKernel* const kernels[] = {&creating, &computing, &fine};
#define OPERATOR(name, kernel, infer) \\
  {"test.careless", name, "", "", 1, &x, 1, &y, 1, &type, 1, NULL, 0, NULL, 0, kernel, 1, infer}
  static const OpgraftOperator all[] = {OPERATOR("Create", kernels, NULL),
                                        OPERATOR("Compute", kernels + 1, NULL),
                                        OPERATOR("Infer", kernels + 2, InferAndFail),
                                        OPERATOR("Fine", kernels + 2, NULL)};
  static const OpgraftOperator* const operators[] = {OPERATORS};
  static const OpgraftPack pack = {OPGRAFT_PACK_VERSION, NULL, operators,
                                   sizeof(operators) / sizeof(operators[0])};
  return &pack;
}
"""


def build(folder: Path, operators: str) -> Path:
    return build_c_library(folder, SOURCE.replace("OPERATORS", operators), "libcareless.so")


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = build(tmp_path_factory.mktemp("careless"), "all, all + 1, all + 2, all + 3")
    opgraft.load(library)
    return library


def model_of(name: str) -> onnx.ModelProto:
    graph = f"(float[n] x) => (float[n] y) {{ y = test.careless.{name} (x) }}"
    return graph_model(graph, more=', "test.careless": 1')


@pytest.mark.parametrize("name", ["Create", "Compute", "Fine"])
def test_what_a_pack_reports_is_an_error(pack: Path, tmp_path: Path, name: str) -> None:
    model, feed = model_of(name), {"x": np.float32([1, 2])}
    onnx.save(model, tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", feed["x"])
    options = onnxruntime.SessionOptions()
    opgraft.register(options)

    def run_in_cpp() -> None:
        command = [runner_path(), "--onnxruntime", runtime_library(), "--pack", str(pack)]
        command += ["--input", f"x={tmp_path}/x.npy", str(tmp_path / "model.onnx")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)

    for run in (
        lambda: opgraft.InferenceSession(model).run(None, feed),
        lambda: onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feed),
        lambda: onnx.reference.ReferenceEvaluator(model).run(None, feed),
        run_in_cpp,
    ):
        if name == "Fine":
            run()
            continue
        with pytest.raises(Exception, match=f"test.careless::{name}: the cause"):
            run()


def test_what_a_shape_rule_reports_is_an_error(pack: Path) -> None:
    with pytest.raises(Exception, match="the cause"):
        onnx.shape_inference.infer_shapes(model_of("Infer"), strict_mode=True)


@pytest.mark.parametrize("operators", ["all, all", "all + 3, all + 2, all + 3"])
def test_an_operator_twice_in_a_pack(tmp_path: Path, operators: str) -> None:
    library = build(tmp_path, operators)
    name = "Create" if operators == "all, all" else "Fine"
    last = operators.count(",")
    said = (
        f"operator 0 of the pack, test.careless::{name} of version 1, and operator {last} of the "
        f"pack, test.careless::{name} of version 1, are the same operator"
    )
    with pytest.raises(opgraft.Error, match=said):
        opgraft.load(library)
    onnx.save(model_of(name), tmp_path / "model.onnx")
    command = [runner_path(), "--onnxruntime", runtime_library(), "--pack", str(library)]
    command.append(str(tmp_path / "model.onnx"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr
