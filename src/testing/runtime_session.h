// ONNX Runtime and the packs that the environment names, and sessions of models in them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "opgraft/c_api.h"
#include "opgraft/onnxruntime.h"
#include "opgraft/status.h"
#include "opgraft/testing.h"

#pragma GCC visibility push(hidden)
namespace opgraft::op_test {

/// The runtime of this process, found once, with its packs.
class TestRuntime {
 public:
  /// An error says what to set.
  static Status Find(const TestRuntime** runtime);

  const OrtApi* api() const { return api_; }
  OrtEnv* environment() const { return environment_; }
  /// "ONNX Runtime 1.31.1".
  const std::string& name() const { return name_; }
  bool has_packs() const { return is_compiled_in_ || !packs_.empty(); }
  /// The rank of a value is known to be known, or not.
  bool tells_rank() const { return tells_rank_; }
  Status Register(OrtSessionOptions* options) const;
  /// The first GPU that OpgraftCUDA finds; an error says why there is none.
  Status FindGpu(const OrtEpDevice** gpu) const;
  /// The declaration that a model which asks for `version` gets; nullptr where no pack has one.
  const OpgraftOperator* FindOperator(std::string_view domain, std::string_view name,
                                      int version) const;

 private:
  struct Pack {
    std::string path;
    const OpgraftPack* table = nullptr;
  };
  Status Load();

  const OrtApiBase* base_ = nullptr;
  const OrtApi* api_ = nullptr;
  OrtEnv* environment_ = nullptr;
  std::string name_;
  bool tells_rank_ = false;
  bool has_plugins_ = false;
  bool is_compiled_in_ = false;
  std::vector<Pack> packs_;
};

/// A tensor that a session is fed with, and its memory.
struct FedValue {
  std::string name;
  const TensorValue* tensor = nullptr;
  bool is_odd = false;  ///< aligned for its elements, but for nothing more
};

struct InferredType {
  std::int32_t element_type = 0;
  OpTester::Shape shape;
};

/// How a session is made.
struct SessionKind {
  bool is_optimized = true;
  bool on_gpu = false;
  bool is_gpu_alone = false;  ///< on a GPU: without nodes on the CPU, or not at all
};

/// A model in the runtime.
class TestSession {
 public:
  TestSession() = default;
  TestSession(const TestSession&) = delete;
  TestSession& operator=(const TestSession&) = delete;
  ~TestSession();

  Status Open(const TestRuntime& runtime, const std::string& model, SessionKind kind);
  /// What the runtime inferred of output `index`.
  Status Inferred(std::size_t index, InferredType* inferred) const;
  /// `changed` gets the names of the inputs whose elements are others afterwards.
  Status Run(const std::vector<FedValue>& inputs, const std::vector<std::string>& output_names,
             std::vector<TensorValue>* outputs, std::vector<std::string>* changed) const;

 private:
  const TestRuntime* runtime_ = nullptr;
  OrtSession* session_ = nullptr;
};

}  // namespace opgraft::op_test
#pragma GCC visibility pop
