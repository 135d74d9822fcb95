"""Packs with an older contract: members that were added later are not read from them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import opgraft
from opgraft import _pyop
from packs import build_c_library

# Its kernel has the members of version 1, and ends at the end of readable memory.
VERSION_1 = """
#include <opgraft/c_api.h>
#include <string.h>
#include <sys/mman.h>

static int Create(const OpgraftKernel* kernel, OpgraftNode* node, void** state) {
  (void)kernel; (void)node;
  *state = (void*)1;
  return 0;
}
static int Compute(void* state, OpgraftCall* call) {
  OpgraftTensor x, y;
  (void)state;
  if (call->table->input(call, 0, &x)) return 1;
  if (call->table->output(call, 0, x.shape, x.rank, &y)) return 1;
  size_t count = 1;
  for (size_t i = 0; i < x.rank; ++i) count *= (size_t)x.shape[i];
  for (size_t i = 0; i < count; ++i) ((float*)y.data)[i] = ((float*)x.data)[i] + 1;
  return 0;
}
static void Destroy(void* state) { (void)state; }

struct KernelOfVersion1 {
  const char* device;
  const int32_t* types;
  int (*create)(const OpgraftKernel*, OpgraftNode*, void**);
  int (*compute)(void*, OpgraftCall*);
  void (*destroy)(void*);
};

const OpgraftPack* opgraft_pack(void) {
  static const int32_t float32[] = {1};
  static const OpgraftType type = {"T", "", float32, 1, 1};
  static const OpgraftParameter x = {"x", "", OPGRAFT_REQUIRED, 0, 1};
  static const OpgraftParameter y = {"y", "", OPGRAFT_REQUIRED, 0, 1};
  static const struct KernelOfVersion1 kernel = {"cpu", float32, Create, Compute, Destroy};
  static const OpgraftKernel* kernels[1];
  static OpgraftOperator one = {"test.version1", "AddOne", "", "", 1, &x, 1, &y, 1, &type, 1,
                                NULL, 0, NULL, 0, kernels, 1, NULL};
  static const OpgraftOperator* const operators[] = {&one};
  static const OpgraftPack pack = {1, NULL, operators, 1};
  if (kernels[0] == NULL) {
    const size_t page = 4096;
    char* const memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                              -1, 0);
    mprotect(memory + page, page, PROT_NONE);
    kernels[0] = memcpy(memory + page - sizeof(kernel), &kernel, sizeof(kernel));
  }
  return &pack;
}
"""


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = build_c_library(tmp_path_factory.mktemp("version1"), VERSION_1)
    opgraft.load(library)
    return library


def test_a_pack_of_version_1_runs(pack: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "test.version1": 1]>
        g (float[n] x) => (float[n] y) { y = test.version1.AddOne (x) }""")
    x = np.float32([1, 2])
    (y,) = opgraft.InferenceSession(model).run(None, {"x": x})
    np.testing.assert_array_equal(y, x + 1)
    # Also without a runtime.
    reference = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})[0]
    np.testing.assert_array_equal(reference, x + 1)


def test_a_pack_of_version_1_says_no_more_of_torch_than_names(pack: Path) -> None:
    """The members that were added in version 3 are not read: their memory is inaccessible."""
    assert _pyop.torch_calls(os.fsencode(pack), "test.version1", "AddOne", 1) is None
