// Packs in memory for tests, with operators that have a name and little more.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/packs.h"
#include "opgraft/c_api.h"

namespace opgraft::testing {

inline std::string Nobody(std::string_view /*full_name*/) { return ""; }

/// Each operator takes one float tensor x and returns y, and has an attribute "names" of kind
/// STRINGS.
class TestPack {
 public:
  TestPack& Add(std::string domain, std::string name, std::int32_t since_version = 1) {
    texts_.push_back(std::move(domain));
    texts_.push_back(std::move(name));
    OpgraftOperator& made = operators_.emplace_back();
    made.domain = texts_[texts_.size() - 2].c_str();
    made.name = texts_.back().c_str();
    made.documentation = made.torch_name = "";
    made.since_version = since_version;
    made.inputs = &kInput;
    made.outputs = &kOutput;
    made.input_count = made.output_count = 1;
    made.types = &kType;
    made.type_count = 1;
    made.attributes = &kAttribute;
    made.attribute_count = 1;
    pointers_.push_back(&made);
    return *this;
  }

  OpgraftPack Get(std::uint32_t version = OPGRAFT_PACK_VERSION) const {
    return {version, nullptr, pointers_.data(), pointers_.size()};
  }

 private:
  static constexpr std::int32_t kAllowed[] = {1};
  static constexpr OpgraftParameter kInput = {"x", "", OPGRAFT_REQUIRED, 0, 1};
  static constexpr OpgraftParameter kOutput = {"y", "", OPGRAFT_REQUIRED, 0, 1};
  static constexpr OpgraftType kType = {"T", "", kAllowed, 1, 1};
  static constexpr OpgraftAttributeParameter kAttribute = {"names", "", 8, 0, {}};

  std::deque<std::string> texts_;
  std::deque<OpgraftOperator> operators_;
  std::vector<const OpgraftOperator*> pointers_;
};

}  // namespace opgraft::testing
