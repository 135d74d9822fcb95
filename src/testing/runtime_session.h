// ONNX Runtime and the packs that the environment names, and sessions with them.
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

/// The runtime of this process and its packs, found once.
class TestRuntime {
 public:
  /// An error says which variables to set.
  static Status Find(const TestRuntime** runtime);

  const OrtApi* api() const { return api_; }
  OrtEnv* environment() const { return environment_; }
  /// Such as "ONNX Runtime 1.31.1".
  const std::string& name() const { return name_; }
  bool has_packs() const { return is_compiled_in_ || !packs_.empty(); }
  /// Whether the runtime distinguishes an unknown rank from a scalar.
  bool tells_rank() const { return tells_rank_; }
  Status Register(OrtSessionOptions* options) const;
  /// Returns the first GPU that OpgraftCUDA finds; an error says why there is none.
  Status FindGpu(const OrtEpDevice** gpu) const;
  /// Returns the declaration that a model with opset `version` gets; nullptr if no pack has one.
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

/// A tensor that is fed to a session.
struct FedValue {
  std::string name;
  const TensorValue* tensor = nullptr;
  bool is_odd = false;  ///< aligned only as far as its elements need
};

struct InferredType {
  std::int32_t element_type = 0;
  OpTester::Shape shape;
};

/// How a session is created.
struct SessionKind {
  bool is_optimized = true;
  bool on_gpu = false;
  bool is_gpu_alone = false;  ///< on a GPU: fails if a node would run on the CPU
};

/// A session with a model.
class TestSession {
 public:
  TestSession() = default;
  TestSession(const TestSession&) = delete;
  TestSession& operator=(const TestSession&) = delete;
  ~TestSession();

  Status Open(const TestRuntime& runtime, const std::string& model, SessionKind kind);
  /// Returns the type and shape that the runtime inferred for output `index`.
  Status Inferred(std::size_t index, InferredType* inferred) const;
  /// `changed` gets the names of the inputs whose elements were changed by the run.
  Status Run(const std::vector<FedValue>& inputs, const std::vector<std::string>& output_names,
             std::vector<TensorValue>* outputs, std::vector<std::string>* changed) const;

 private:
  const TestRuntime* runtime_ = nullptr;
  OrtSession* session_ = nullptr;
};

}  // namespace opgraft::op_test
#pragma GCC visibility pop
