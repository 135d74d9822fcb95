// The functions of a model, and which of them must be inlined because they contain our nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "model/opset_import.h"
#include "model/pyop_node.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// Whether Opgraft runs a node, or puts the body of its operator in its place.
using IsOurs = std::function<bool(std::string_view node, const NodeHead&)>;
/// Whether an operator that Opgraft runs is a different one in this version of its domain than in
/// the version that applies to the model.
using IsAnother = std::function<bool(const NodeHead&, std::int64_t version)>;

/// A FunctionProto, as views of the model's bytes.
struct Function {
  std::string_view bytes;
  std::string_view domain;
  std::string_view name;
  std::string_view overload;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<std::string_view> nodes;
  std::vector<std::string_view> value_infos;
  std::map<std::string_view, std::string_view> defaults;  ///< AttributeProtos by name
  std::vector<OpsetImport> imports;

  /// Returns "domain.Name" or "domain.Name:overload", for messages.
  std::string FullName() const;
};

/// Reads a FunctionProto.
Function ReadFunction(std::string_view bytes);

class Functions {
 public:
  /// Reads the functions of `model`, whose bytes must outlive this object. Returns a ModelError,
  /// which names the model as `origin`, if functions call one another in a cycle, or if a function
  /// that must be inlined is defined twice or would mean another operator in the model.
  /// `inlines_all`: every function is inlined, and not only those that must be.
  Status Read(std::string_view model, std::string_view origin, const IsOurs& is_ours,
              const IsAnother& is_another, bool inlines_all = false);

  /// Returns the function that the node calls if it must be inlined, else nullptr.
  const Function* FindInlined(const NodeHead& head) const;
  /// Whether the function with these bytes is inlined.
  bool IsInlined(std::string_view bytes) const { return inlined_bytes_.count(bytes.data()) != 0; }
  /// Whether the node calls a function of the model.
  bool IsCall(const NodeHead& head) const { return Find(head) != nullptr; }
  bool AnyInlined() const { return !inlined_.empty(); }

  /// The imports of inlined functions that the model lacks.
  const std::vector<OpsetImport>& missing_imports() const { return missing_imports_; }

 private:
  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;
  using Index = std::size_t;

  /// The nodes of a function, including those in nested graphs.
  struct Contents {
    bool has_ours = false;
    /// The domain and operator of each node that Opgraft runs.
    std::set<std::pair<std::string_view, std::string_view>> ours;
    std::set<Index> calls;
    /// The domain, operator and bytes of each other node.
    std::set<std::tuple<std::string_view, std::string_view, std::string_view>> others;
  };

  const Index* Find(const NodeHead& head) const;
  void Look(std::string_view node, const IsOurs& is_ours, Contents* contents);
  Status CheckForCycles(std::string_view origin) const;
  void SpreadInlining(bool inlines_all);
  Status CheckImports(std::string_view origin, const std::vector<OpsetImport>& imports,
                      const IsAnother& is_another);

  std::vector<Function> functions_;
  std::vector<Contents> contents_;  // for each function
  std::map<Key, Index> by_key_;
  std::set<Index> inlined_;
  std::set<const char*> inlined_bytes_;  // the start of each inlined function
  std::set<Index> doubled_;              // functions that share their key with another
  std::vector<OpsetImport> missing_imports_;
};

}  // namespace opgraft::model
