"""Sessions that register our library again, or also libraries of other vendors."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import opgraft
from conftest import DOUBLE, FLOAT, Write, floats, pyop_model


@pytest.mark.parametrize(
    "ways", ["plain plain", "plain opgraft", "opgraft plain", "opgraft opgraft plain plain"]
)
def test_registering_again_is_harmless(write_module: Write, ways: str) -> None:
    module = write_module(DOUBLE)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("opgraft.allow", module)
    for way in ways.split():
        if way == "plain":
            options.register_custom_ops_library(opgraft.library_path())
        else:
            opgraft.register(options, allow=[module])
    prepared = opgraft.prepare(pyop_model(module)).bytes
    for session in (
        onnxruntime.InferenceSession(prepared, options),
        opgraft.InferenceSession(pyop_model(module), options),
        opgraft.InferenceSession(pyop_model(module), options, allow=[module]),
    ):
        np.testing.assert_array_equal(session.run(None, {"x": floats(2)})[0], [0, 2])


VENDOR = """
// A custom operator library of another vendor: vendor.Triple, y = 3 x for floats.
#include <opgraft/onnxruntime.h>

#include <cstdint>

namespace ort = opgraft::ort;

namespace {

const OrtApi* api;

struct Triple {
  std::uint32_t version = 18;
  void* (*create)(const void*, const OrtApi*, const OrtKernelInfo*) =
      [](const void*, const OrtApi*, const OrtKernelInfo*) -> void* { return new int; };
  const char* (*name)(const void*) = [](const void*) { return "Triple"; };
  const char* (*provider)(const void*) = [](const void*) -> const char* { return nullptr; };
  int (*input_type)(const void*, std::size_t) = [](const void*, std::size_t) { return 1; };
  std::size_t (*inputs)(const void*) = [](const void*) -> std::size_t { return 1; };
  int (*output_type)(const void*, std::size_t) = [](const void*, std::size_t) { return 1; };
  std::size_t (*outputs)(const void*) = [](const void*) -> std::size_t { return 1; };
  void (*compute)(void*, OrtKernelContext*) = [](void*, OrtKernelContext* context) {
    const OrtValue* input = nullptr;
    OrtValue* output = nullptr;
    OrtTensorTypeAndShapeInfo* info = nullptr;
    void* from = nullptr;
    void* to = nullptr;
    std::int64_t size = 0;
    ort::KernelContext_GetInput(api, context, 0, &input);
    ort::GetTensorTypeAndShape(api, input, &info);
    ort::GetDimensions(api, info, &size, 1);
    ort::ReleaseTensorTypeAndShapeInfo(api, info);
    ort::KernelContext_GetOutput(api, context, 0, &size, 1, &output);
    ort::GetTensorMutableData(api, const_cast<OrtValue*>(input), &from);
    ort::GetTensorMutableData(api, output, &to);
    for (int i = 0; i < size; ++i) static_cast<float*>(to)[i] = 3 * static_cast<float*>(from)[i];
  };
  void (*destroy)(void*) = [](void* kernel) { delete static_cast<int*>(kernel); };
  int (*input_kind)(const void*, std::size_t) = [](const void*, std::size_t) { return 0; };
  int (*output_kind)(const void*, std::size_t) = [](const void*, std::size_t) { return 0; };
  int (*memory)(const void*, std::size_t) = [](const void*, std::size_t) { return 0; };
  int (*arity)(const void*) = [](const void*) { return 1; };
  int (*homogeneity)(const void*) = [](const void*) { return 1; };
  int (*output_arity)(const void*) = [](const void*) { return 1; };
  int (*output_homogeneity)(const void*) = [](const void*) { return 1; };
  void* create_v2 = nullptr;
  void* compute_v2 = nullptr;
  void* infer = nullptr;
  int (*first)(const void*) = [](const void*) { return 1; };
  int (*last)(const void*) = [](const void*) { return 1; };
  void* rest[4] = {};
};

}  // namespace

extern "C" OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  static const Triple triple;
  api = ort::GetApi(base, 18);
  OrtCustomOpDomain* domain = nullptr;
  ort::CreateCustomOpDomain(api, "vendor", &domain);
  ort::CustomOpDomain_Add(api, domain, reinterpret_cast<const OrtCustomOp*>(&triple));
  return ort::AddCustomOpDomain(api, options, domain);
}
"""


def model_with(vendors: onnx.NodeProto, module: str) -> onnx.ModelProto:
    """Returns a model with the vendor's node followed by our Python operator."""
    node = pyop_model(module, inputs=("between",)).graph.node[0]
    values = [helper.make_tensor_value_info(name, FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph([vendors, node], "graph", values[:1], values[1:])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(vendors.domain, 1)]
    return helper.make_model(graph, opset_imports=imports)


@pytest.mark.parametrize("ours", ["before", "after"])
def test_a_library_of_another_vendor(write_module: Write, tmp_path: Path, ours: str) -> None:
    module = write_module(DOUBLE)
    (tmp_path / "vendor.cc").write_text(VENDOR)
    command = ["g++", "-std=c++20", "-shared", "-fPIC", f"-I{opgraft.get_include()}", "vendor.cc"]
    subprocess.run([*command, "-o", "libvendor.so"], cwd=tmp_path, check=True)
    options = onnxruntime.SessionOptions()
    if ours == "before":
        opgraft.register(options, allow=[module])
    options.register_custom_ops_library(str(tmp_path / "libvendor.so"))
    model = model_with(helper.make_node("Triple", ["x"], ["between"], domain="vendor"), module)
    session = opgraft.InferenceSession(model, options, allow=[module])
    np.testing.assert_array_equal(session.run(None, {"x": floats(4)})[0], 6 * floats(4))


@pytest.mark.parametrize("ours", ["before", "after"])
def test_onnxruntime_extensions(write_module: Write, ours: str) -> None:
    extensions = pytest.importorskip("onnxruntime_extensions", exc_type=ImportError)
    module = write_module(DOUBLE)
    options = onnxruntime.SessionOptions()
    if ours == "before":
        opgraft.register(options, allow=[module])
    options.register_custom_ops_library(extensions.get_library_path())
    node = helper.make_node("NegPos", ["x"], ["negative", "between"], domain="ai.onnx.contrib")
    session = opgraft.InferenceSession(model_with(node, module), options, allow=[module])
    x = np.float32([-1, 2, -3, 4])
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], [0, 4, 0, 8])
