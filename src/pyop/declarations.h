// The operators that Python code has declared in this process, as preparing and running see them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/policy.h"
#include "core/schema.h"
#include "model/operator_source.h"
#include "opgraft/status.h"
#include "pyop/spec.h"

namespace opgraft::pyop {

/// Makes an operator known, or replaces the one of that name. An Error where a pack has it.
/// Thread-safe, as is all here.
Status Declare(std::shared_ptr<const Schema> schema);

/// nullptr where nobody has declared it.
std::shared_ptr<const Schema> FindDeclared(std::string_view full_name);

/// Bridge::find_schema.
Status FindSchema(std::string_view who, std::string_view full_name, std::string_view module,
                  const Policy& policy, std::shared_ptr<const Schema>* schema);

/// The declared operators as a source for preparing, under a policy that outlives it.
class DeclaredOperators final : public model::OperatorSource {
 public:
  explicit DeclaredOperators(const Policy& policy) : policy_(policy) {}

  Status Find(const model::OperatorQuery& query, std::shared_ptr<const Schema>* schema) override {
    return FindSchema(query.who, query.full_name, query.module, policy_, schema);
  }

 private:
  const Policy& policy_;
};

/// Bridge::infer_shapes.
Status InferShapes(const Spec& spec, const Policy& policy, const std::vector<SymbolicShape>& inputs,
                   std::vector<SymbolicShape>* outputs);

/// Bridge::import_module.
Status ImportModule(const std::string& module);

}  // namespace opgraft::pyop
