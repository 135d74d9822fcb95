// The functions of a model, and which of them must be inlined because our nodes stand in them.
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

/// Whether a node is one that Opgraft runs.
using IsOurs = std::function<bool(const NodeHead&)>;
/// Whether one that Opgraft runs is another operator at this version of its domain than at the
/// version that counts for the model.
using IsAnother = std::function<bool(const NodeHead&, std::int64_t version)>;

/// A FunctionProto. Views into the model's bytes.
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

  /// "domain.Name", or "domain.Name:overload", for messages.
  std::string FullName() const;
};

class Functions {
 public:
  /// Reads the functions of `model`, whose bytes must outlive this. A ModelError, which names the
  /// model as `origin`, where they call one another in a circle, or where one that must be inlined
  /// is there twice or means another operator than the model would.
  Status Read(std::string_view model, std::string_view origin, const IsOurs& is_ours,
              const IsAnother& is_another);

  /// The function that the node calls, if it is one that must be inlined; else nullptr.
  const Function* FindInlined(const NodeHead& head) const;
  /// Whether the function with these bytes is inlined.
  bool IsInlined(std::string_view bytes) const { return inlined_bytes_.count(bytes.data()) != 0; }
  bool AnyInlined() const { return !inlined_.empty(); }

  /// What the inlined functions import and the model does not.
  const std::vector<OpsetImport>& missing_imports() const { return missing_imports_; }

 private:
  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;
  using Index = std::size_t;

  /// What the nodes of a function, and of the graphs inside them, are.
  struct Contents {
    bool has_ours = false;
    /// The domain and the operator of each of these.
    std::set<std::pair<std::string_view, std::string_view>> ours;
    std::set<Index> calls;
    /// The domain, the operator and the bytes of each other node.
    std::set<std::tuple<std::string_view, std::string_view, std::string_view>> others;
  };

  const Index* Find(const NodeHead& head) const;
  void Look(std::string_view node, const IsOurs& is_ours, Contents* contents);
  Status CheckForCycles(std::string_view origin) const;
  void SpreadInlining();
  Status CheckImports(std::string_view origin, const std::vector<OpsetImport>& imports,
                      const IsAnother& is_another);

  std::vector<Function> functions_;
  std::vector<Contents> contents_;  // of each function
  std::map<Key, Index> by_key_;
  std::set<Index> inlined_;
  std::set<const char*> inlined_bytes_;  // where each of these begins
  std::set<Index> doubled_;              // of several with the same key
  std::vector<OpsetImport> missing_imports_;
};

}  // namespace opgraft::model
