// The operators that Python code has declared in this process, for preparing and running models.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/policy.h"
#include "core/schema.h"
#include "model/operator_source.h"
#include "model/python_spec.h"
#include "opgraft/status.h"

namespace opgraft::pyop {

/// Registers an operator, or replaces the one with its name. Returns an Error if a pack declares
/// it. Like all functions here, thread-safe.
Status Declare(std::shared_ptr<const Schema> schema);

/// Returns nullptr if the operator is not declared.
std::shared_ptr<const Schema> FindDeclared(std::string_view full_name);

/// Returns all declared operators, in the order of their names.
std::vector<std::shared_ptr<const Schema>> AllDeclared();

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
