// The contract between libopgraft, which knows no Python, and the module opgraft._pyop, which does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/policy.h"
#include "core/schema.h"
#include "opgraft/status.h"
#include "pyop/spec.h"

namespace opgraft::pyop {

/// Raised with every change of this file or of what it includes. Both sides are built from one
/// tree, but a program may bring a libopgraft older or newer than its Python's package.
inline constexpr std::uint32_t kBridgeVersion = 5;

/// A tensor in the runtime's memory, of the GPU where the operator runs on one; `data` is nullptr
/// for an input that is absent, and not to be read where the type is string. Elements of less than
/// a byte are packed, lowest first.
struct TensorView {
  void* data = nullptr;
  std::int64_t element_type = 0;
  std::span<const std::int64_t> shape;
};

/// One call of an operator: its inputs, and where its outputs are to go.
class Call {
 public:
  virtual ~Call() = default;
  /// One for each argument of the method. Valid until the call is over.
  virtual std::span<const TensorView> inputs() const = 0;
  /// Memory for the whole of output `index`, of the type that the spec gives; at most once each.
  /// `data` is nullptr where nobody wants this output, or it has no elements.
  virtual Status Allocate(std::size_t index, std::span<const std::int64_t> shape, void** data) = 0;
  /// The elements of input `index`, which is of the type string: views of `storage`.
  virtual Status ReadStrings(std::size_t index, std::string* storage,
                             std::vector<std::string_view>* strings) = 0;
  /// In place of Allocate for an output of the type string: stores all of its elements.
  virtual Status StoreStrings(std::size_t index, std::span<const std::int64_t> shape,
                              std::span<const std::string_view> strings) = 0;
  /// Whether output `index` is left out of the node. If it is not, the call must fail: it has
  /// memory by then, of no use.
  virtual Status IsUnwanted(std::size_t index, bool* is_unwanted) = 0;
};

/// The GPU that a node runs on, in the run that this thread is in. Thread-safe.
class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual int index() const = 0;
  /// A CUstream: all work of a call goes to it.
  virtual void* Stream() const = 0;
  /// Memory for work on that stream; nullptr where there is none. Work may still go on with it when
  /// it is given back.
  virtual void* Allocate(std::size_t bytes) const = 0;
  virtual void Free(void* memory) const = 0;
  /// Copies from one place of the GPU's memory to another, by that stream and without waiting.
  virtual Status Copy(void* to, const void* from, std::size_t bytes) const = 0;
};

/// A Python operator, ready to run. Thread-safe: calls may overlap.
class Operator {
 public:
  virtual ~Operator() = default;
  virtual Status Compute(Call& call) noexcept = 0;
};

/// What opgraft._pyop hands over, in the capsule `opgraft._pyop.bridge`.
struct Bridge {
  std::uint32_t version;
  /// Imports the module and makes the object. `spec` is checked, and all its types are filled in.
  /// The module of a class must be allowed, and the class itself be of an allowed module, unless
  /// this process has written what the node holds. A declared operator is run if the process knows
  /// it, or its module is allowed and declares it.
  /// `policy` is used during the call alone. `gpu` is there for an operator that runs on one, and
  /// outlives it; else nullptr.
  Status (*create)(const Spec& spec, const Policy& policy, const Gpu* gpu,
                   std::unique_ptr<Operator>* made);
  /// OperatorSource::Find under `policy`.
  Status (*find_schema)(std::string_view who, std::string_view full_name, std::string_view module,
                        const Policy& policy, std::shared_ptr<const Schema>* schema);
  /// Asks the shape rule of a declared operator, for arguments of these shapes in their order. As
  /// many outputs as the spec has; all are open where there is no rule or it cannot tell.
  Status (*infer_shapes)(const Spec& spec, const Policy& policy,
                         const std::vector<SymbolicShape>& inputs,
                         std::vector<SymbolicShape>* outputs);
  /// Imports a module that the host has named itself, so that what it declares is known.
  Status (*import_module)(const std::string& module);
};

inline constexpr char kBridgeModule[] = "opgraft._pyop";
inline constexpr char kBridgeAttribute[] = "bridge";
inline constexpr char kBridgeCapsule[] = "opgraft._pyop.bridge";

/// The function of the module's library that starts Python in a program that has none. Its name
/// changes with kBridgeVersion, since it is called before the version can be read.
inline constexpr char kStartPythonSymbol[] = "opgraft_start_python_5";
using StartPython = void (*)(const char* program, Status* status);

}  // namespace opgraft::pyop
