#include "model/pack_operators.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/test_packs.h"
#include "model/runtime_operators.h"

namespace opgraft::model {
namespace {

using opgraft::testing::Nobody;
using opgraft::testing::TestPack;

class PackOperatorsTest : public ::testing::Test {
 protected:
  PackOperatorsTest() {
    pack_.Add("my", "Op", 2).Add("com.microsoft", "Gelu", 2).Add("com.microsoft", "OnlyOurs");
    pack_.Add("ai.onnx", "Relu", 22);
    EXPECT_TRUE(packs_.Add(pack_.Get(), "libmy.so", Nobody).ok());
  }

  Status Find(std::string_view prefer, const OperatorQuery& query,
              std::shared_ptr<const Schema>* schema) {
    Preference preference;
    Status status = Preference::Parse(prefer, packs_, &preference);
    if (!status.ok()) return status;
    return PackOperators(packs_, preference, others_).Find(query, schema);
  }
  /// Whether an operator of the pack runs the node.
  bool IsOurs(std::string_view prefer, std::string_view full_name, std::int64_t version = 0) {
    std::shared_ptr<const Schema> schema;
    const Status status = Find(prefer, {"who", full_name, version}, &schema);
    EXPECT_TRUE(status.ok()) << status.message();
    return schema != nullptr;
  }

  TestPack pack_;
  Packs packs_;
  NoOperators others_;
};

TEST_F(PackOperatorsTest, TheRuntimesOwnOnlyWhereItIsPreferred) {
  EXPECT_TRUE(IsOurs("", "my::Op"));
  EXPECT_TRUE(IsOurs("", "com.microsoft::OnlyOurs", 1));
  EXPECT_FALSE(IsOurs("", "com.microsoft::Gelu", 1));
  EXPECT_FALSE(IsOurs("my", "com.microsoft::Gelu", 5));
  EXPECT_FALSE(IsOurs("", "::Relu", 21));
  EXPECT_TRUE(IsOurs("com.microsoft", "com.microsoft::Gelu", 5));
  EXPECT_TRUE(IsOurs("my,com.microsoft::Gelu", "com.microsoft::Gelu"));
  EXPECT_FALSE(IsOurs("com.microsoft::OnlyOurs", "com.microsoft::Gelu"));
  EXPECT_TRUE(IsOurs("ai.onnx", "::Relu", 22));
  EXPECT_TRUE(IsOurs("ai.onnx::Relu", "::Relu", 22));
  EXPECT_TRUE(IsOurs("::Relu", "::Relu", 22));
  EXPECT_TRUE(IsOurs(",", "my::Op"));
}

TEST_F(PackOperatorsTest, AVersionThatNoPackHasIsAnErrorWhereItWouldRun) {
  std::shared_ptr<const Schema> schema;
  EXPECT_EQ(Find("", {"who", "my::Op", 1}, &schema).kind(), ErrorKind::kModel);
  EXPECT_EQ(Find("com.microsoft", {"who", "com.microsoft::Gelu", 1}, &schema).kind(),
            ErrorKind::kModel);
  EXPECT_EQ(schema, nullptr);
}

TEST_F(PackOperatorsTest, PreparedNodesNeedNoPreference) {
  EXPECT_TRUE(IsOurs("", "ai.opgraft.com.microsoft::Gelu", 2));
  EXPECT_TRUE(IsOurs("", "ai.opgraft.ai.onnx::Relu", 22));
}

TEST_F(PackOperatorsTest, APreferenceForSomethingUnknown) {
  for (const std::string_view wrong : {"com.microsoft::Nothing", "other", "Gelu", "::Gelu"}) {
    Preference preference;
    const Status status = Preference::Parse(wrong, packs_, &preference);
    EXPECT_EQ(status.kind(), ErrorKind::kError);
    EXPECT_NE(status.message().find("'" + std::string(wrong) + "'"), std::string::npos);
  }
}

TEST_F(PackOperatorsTest, AnOperatorThatPythonHasDeclaredToo) {
  class Declared final : public OperatorSource {
   public:
    Status Find(const OperatorQuery& query, std::shared_ptr<const Schema>* schema) override {
      EXPECT_EQ(query.module, "");  // the module that the model names must not be imported
      auto made = std::make_shared<Schema>();
      made->module = "m";
      *schema = made;
      return Status();
    }
  } declared;
  std::shared_ptr<const Schema> schema;
  OperatorQuery query = {"node 'n', operator my::Op", "my::Op", 2};
  query.module = "evil";
  const Preference none;
  const Status status = PackOperators(packs_, none, declared).Find(query, &schema);
  EXPECT_EQ(status.message(),
            "node 'n', operator my::Op is declared by the pack 'libmy.so' and by the Python module "
            "'m'; only one of them can have it");
}

TEST(RuntimeOperatorsTest, WholeNamesOnly) {
  for (const std::string_view name : {"Attention", "Inverse", "WordConvEmbedding", "Gelu"}) {
    EXPECT_TRUE(RuntimeMayHave("com.microsoft", name)) << name;
  }
  for (const std::string_view name : {"", " ", "elu", "Gel", "Gelu ", "Inverse Irfft", "Word"}) {
    EXPECT_FALSE(RuntimeMayHave("com.microsoft", name)) << name;
  }
  EXPECT_TRUE(RuntimeMayHave("", "NotYet"));
  EXPECT_TRUE(RuntimeMayHave("ai.onnx.ml", "NotYet"));
}

}  // namespace
}  // namespace opgraft::model
