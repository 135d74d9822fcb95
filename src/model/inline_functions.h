// Calls of a model's functions, written out as the nodes of the function's body.
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

/// The nodes that stand for one call, with names that nothing else in the model has.
struct Expansion {
  struct Node {
    Rope bytes;
    /// The node in the function's body where it differs from that in names alone, and has no graphs
    /// inside it; else empty. It may be as large as its constants are, and should stay a rope.
    std::string_view plain;
  };
  std::vector<Node> nodes;
  /// What the function declares about the values that its nodes compute.
  std::vector<std::pair<std::string_view, DeclaredValue>> values;
};

class Inliner {
 public:
  /// The names of `graph` will not be used again. Messages name the model as `origin`; the more
  /// bytes it has, the more may be copied.
  Inliner(std::string_view graph, std::string_view origin, std::size_t model_size);

  /// Writes out `call`, a NodeProto that calls `function`; both must outlive the expansion, and the
  /// expansion must not outlive the inliner. Calls inside the function become calls. A ModelError
  /// where the two do not fit together, or the calls of a model come to too many nodes or bytes.
  Status Expand(const Function& function, std::string_view call, Expansion* expansion);

  /// Counts bytes that are going to be copied, which those of ropes are not: a ModelError where the
  /// calls of the model come to too many.
  Status Charge(std::size_t bytes);

 private:
  /// What the names in a function's body, or in a graph inside it, have become.
  struct Scope {
    const Scope* outer = nullptr;
    std::map<std::string_view, std::string_view> values;

    const std::string_view* Find(std::string_view name) const;
  };

  /// The call that is being written out.
  struct Call {
    const Function* function;
    std::string prefix;                                       // of all new names
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
  /// Charges what it makes; who has many made checks IsOverdrawn.
  std::string_view NewName(const Call& call, std::string_view name);
  std::size_t MostCopied() const;
  bool IsOverdrawn() const { return copied_ > MostCopied(); }
  Status Refuse(const Call& call, const std::string& why) const;

  const std::string_view origin_;
  std::unordered_set<std::string_view> names_;  // of values and of nodes
  std::deque<std::string> new_names_;           // what the set's views look at
  std::size_t calls_ = 0;
  std::size_t nodes_ = 0;
  std::size_t copied_ = 0;         // bytes
  const std::size_t most_copied_;  // beyond what each node may have
};

}  // namespace opgraft::model
