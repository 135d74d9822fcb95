// The source of operator schemas for preparing a model.
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
  /// The version of its domain that the model imports; 0 if it does not import the domain.
  std::int64_t version = 0;
  /// The Python module that declares the operator according to the model; "" if the model does not
  /// say. It is imported if the host allows that; otherwise the result is a PolicyError.
  std::string_view module = {};
};

class OperatorSource {
 public:
  virtual ~OperatorSource() = default;

  /// Finds the schema of an operator; leaves `schema` unchanged if the operator is not declared.
  virtual Status Find(const OperatorQuery& query, std::shared_ptr<const Schema>* schema) = 0;
};

/// A source without operators.
class NoOperators final : public OperatorSource {
 public:
  Status Find(const OperatorQuery&, std::shared_ptr<const Schema>*) override { return Status(); }
};

}  // namespace opgraft::model
