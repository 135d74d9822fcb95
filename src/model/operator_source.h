// Where preparing learns which operators are declared, and what they take and give.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/schema.h"
#include "opgraft/status.h"

namespace opgraft::model {

struct OperatorQuery {
  std::string_view who;        ///< begins the messages
  std::string_view full_name;  ///< "domain::Name"
  /// Of its domain, as the model imports it; 0 where it does not.
  std::int64_t version = 0;
  /// The Python module that declares it by the model's own word, "" where the model says nothing:
  /// it is imported where the host allows that, else it is a PolicyError.
  std::string_view module = {};
};

class OperatorSource {
 public:
  virtual ~OperatorSource() = default;

  /// The schema of an operator; left alone where nobody has declared it.
  virtual Status Find(const OperatorQuery& query, std::shared_ptr<const Schema>* schema) = 0;
};

/// None at all.
class NoOperators final : public OperatorSource {
 public:
  Status Find(const OperatorQuery&, std::shared_ptr<const Schema>*) override { return Status(); }
};

}  // namespace opgraft::model
