// Replaces calls of a model's functions with the nodes of the function's body.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/declared_values.h"
#include "model/functions.h"
#include "model/rope.h"
#include "opgraft/status.h"

namespace opgraft::model {

/// The nodes that replace one call, with names that are unique in the model.
struct Expansion {
  struct Node {
    Rope bytes;
    /// The node in the function's body if it differs only in names and contains no graphs; else
    /// empty. The node may be as large as its constants, and should stay a rope.
    std::string_view plain;
  };
  std::vector<Node> nodes;
  /// What the function declares about the values that its nodes compute.
  std::vector<std::pair<std::string_view, DeclaredValue>> values;
};

class Inliner {
 public:
  /// The names in `graph` will not be used again. Messages name the model as `origin`. The larger
  /// the model, the more bytes may be copied.
  Inliner(std::string_view graph, std::string_view origin, std::size_t model_size);

  /// Expands `call`, a NodeProto that calls `function`. Both must outlive the expansion, and the
  /// expansion must not outlive the inliner. Calls inside the function stay calls. Returns a
  /// ModelError if the call does not fit the function, or if the calls of the model add up to too
  /// many nodes or bytes.
  Status Expand(const Function& function, std::string_view call, Expansion* expansion);

  /// Counts bytes that are about to be copied; the bytes of ropes are not. Returns a ModelError if
  /// the calls of the model add up to too many.
  Status Charge(std::size_t bytes);

 private:
  /// The new names of the values in a function's body, or in a graph inside it.
  struct Scope {
    const Scope* outer = nullptr;
    std::map<std::string_view, std::string_view> values;

    const std::string_view* Find(std::string_view name) const;
  };

  /// The call that is being expanded.
  struct Call {
    const Function* function;
    std::string prefix;                                       // prefix of all new names
    std::map<std::string_view, std::string_view> attributes;  // AttributeProtos by name
  };

  Status BindValues(const Call& call, const std::vector<std::string_view>& inputs,
                    const std::vector<std::string_view>& outputs, Scope* scope,
                    Expansion* expansion);
  Status WriteNode(const Call& call, std::string_view node, const Scope& scope, int depth,
                   Rope* out, bool* is_plain);
  Status WriteAttribute(const Call& call, std::string_view attribute, const Scope& scope, int depth,
                        Rope* out, bool* is_plain);
  Status WriteGraph(const Call& call, std::string_view graph, const Scope& outer, int depth,
                    Rope* out);
  void NoteNames(std::string_view graph);
  /// Counts the bytes of the new name. A caller that makes many names checks IsOverdrawn.
  std::string_view NewName(const Call& call, std::string_view name);
  std::size_t MostCopied() const;
  bool IsOverdrawn() const { return copied_ > MostCopied(); }
  Status Refuse(const Call& call, const std::string& why) const;

  const std::string_view origin_;
  std::unordered_set<std::string_view> names_;  // of values and of nodes
  std::deque<std::string> new_names_;           // the storage of the set's views
  std::size_t calls_ = 0;
  std::size_t nodes_ = 0;
  std::size_t copied_ = 0;         // bytes
  const std::size_t most_copied_;  // in addition to the allowance of each node
};

}  // namespace opgraft::model
