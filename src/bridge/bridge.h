// The interface between libopgraft, which is independent of Python, and the module opgraft._pyop.
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
#include "model/python_spec.h"
#include "opgraft/status.h"

namespace opgraft::pyop {

/// Raised with every change of this file or of the headers that it includes. Both sides are built
/// from one tree, but a program may bring a libopgraft that is older or newer than the package of
/// its Python.
inline constexpr std::uint32_t kBridgeVersion = 6;

/// A tensor in the runtime's memory, on the GPU if the operator runs on one. `data` is nullptr for
/// an absent input, and must not be read if the type is string. Elements smaller than a byte are
/// packed, lowest bits first.
struct TensorView {
  void* data = nullptr;
  std::int64_t element_type = 0;
  std::span<const std::int64_t> shape;
};

/// One call of an operator: its inputs, and the memory for its outputs.
class Call {
 public:
  virtual ~Call() = default;
  /// One input for each argument of the method. Valid until the call is over.
  virtual std::span<const TensorView> inputs() const = 0;
  /// Allocates the memory of output `index`, which has the type in the spec. At most once for each
  /// output. `data` is nullptr if the output is not needed or has no elements.
  virtual Status Allocate(std::size_t index, std::span<const std::int64_t> shape, void** data) = 0;
  /// Reads the elements of input `index`, which has the type string, as views of `storage`.
  virtual Status ReadStrings(std::size_t index, std::string* storage,
                             std::vector<std::string_view>* strings) = 0;
  /// Stores all elements of an output of the type string; called instead of Allocate.
  virtual Status StoreStrings(std::size_t index, std::span<const std::int64_t> shape,
                              std::span<const std::string_view> strings) = 0;
  /// Sets whether the node omits output `index`. If it does not, the call must fail, because this
  /// check has allocated the output with a wrong shape.
  virtual Status IsUnwanted(std::size_t index, bool* is_unwanted) = 0;
};

/// The GPU that a node runs on, for the run that this thread is in. Thread-safe.
class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual int index() const = 0;
  /// Returns a CUstream, to which all work of a call must be submitted.
  virtual void* Stream() const = 0;
  /// Allocates memory for work on that stream; nullptr if there is none. It may be freed while work
  /// on the stream still uses it.
  virtual void* Allocate(std::size_t bytes) const = 0;
  virtual void Free(void* memory) const = 0;
  /// Copies within the GPU's memory, on that stream and without waiting.
  virtual Status Copy(void* to, const void* from, std::size_t bytes) const = 0;
};

/// What a class or a declaration says about its operator, for worker processes.
struct Traits {
  bool is_pure = false;    ///< calling it again with the same inputs does no harm
  bool is_single = false;  ///< all calls must be of one object, so of one worker
};

/// A Python operator, ready to run. Thread-safe: calls may overlap.
class Operator {
 public:
  virtual ~Operator() = default;
  virtual Status Compute(Call& call) noexcept = 0;
  virtual Traits traits() const { return {}; }
};

/// The functions that opgraft._pyop provides, in the capsule `opgraft._pyop.bridge`.
struct Bridge {
  std::uint32_t version;
  /// Imports the module and creates the object. `spec` has been checked, and all its types are
  /// filled in. The module of a class must be allowed, and the class itself must belong to an
  /// allowed module, unless this process has written the node itself. A declared operator runs if
  /// the process has declared it, or if its module is allowed and declares it.
  /// `policy` is only used during the call. `gpu` is the GPU of an operator that runs on one, and
  /// outlives the operator; else nullptr.
  Status (*create)(const Spec& spec, const Policy& policy, const Gpu* gpu,
                   std::unique_ptr<Operator>* made);
  /// Does the work of OperatorSource::Find under `policy`.
  Status (*find_schema)(std::string_view who, std::string_view full_name, std::string_view module,
                        const Policy& policy, std::shared_ptr<const Schema>* schema);
  /// Calls the shape rule of a declared operator with the shapes of the arguments, in order. Sets
  /// as many outputs as the spec has; all are open if there is no rule or it cannot tell.
  Status (*infer_shapes)(const Spec& spec, const Policy& policy,
                         const std::vector<SymbolicShape>& inputs,
                         std::vector<SymbolicShape>* outputs);
  /// Imports a module that the host itself has named, so that the operators it declares are known.
  Status (*import_module)(const std::string& module);
  /// Finds what worker processes need of this Python: its command, unless `python` names another
  /// one, and the folders on its path, separated by zeros.
  Status (*describe_python)(const std::string& python, std::string* executable, std::string* path);
  /// Runs the handlers of signals that have come; the error of a handler that raised. To be called
  /// in the main thread.
  Status (*check_signals)();
  /// Keeps the exception that a worker has described for the session to raise; returns its number,
  /// or 0.
  long long (*keep_exception)(const std::string& described);
};

inline constexpr char kBridgeModule[] = "opgraft._pyop";
inline constexpr char kBridgeAttribute[] = "bridge";
inline constexpr char kBridgeCapsule[] = "opgraft._pyop.bridge";

/// The function of the module's library that starts Python in a program that has none. Its name
/// changes with kBridgeVersion, since it is called before the version can be read.
inline constexpr char kStartPythonSymbol[] = "opgraft_start_python_6";
using StartPython = void (*)(const char* program, Status* status);

}  // namespace opgraft::pyop
