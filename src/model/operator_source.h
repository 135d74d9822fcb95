// Where preparing learns which operators are declared, and what they take and give.
#pragma once

#include <memory>
#include <string_view>

#include "core/schema.h"
#include "opgraft/status.h"

namespace opgraft::model {

class OperatorSource {
 public:
  virtual ~OperatorSource() = default;

  /// The schema of the operator "domain::Name"; left alone where nobody has declared it. `module`
  /// is the Python module that declares it by the model's own word, "" where the model says
  /// nothing: it is imported where the host allows that, else it is a PolicyError. `who` begins the
  /// messages.
  virtual Status Find(std::string_view who, std::string_view full_name, std::string_view module,
                      std::shared_ptr<const Schema>* schema) = 0;
};

/// None at all.
class NoOperators final : public OperatorSource {
 public:
  Status Find(std::string_view, std::string_view, std::string_view,
              std::shared_ptr<const Schema>*) override {
    return Status();
  }
};

}  // namespace opgraft::model
