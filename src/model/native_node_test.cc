#include "model/native_node.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/packed_texts.h"
#include "core/test_packs.h"
#include "model/fields.h"
#include "model/onnx_tags.h"
#include "model/test_models.h"

namespace opgraft::model {
namespace {

using opgraft::testing::Nobody;
using opgraft::testing::TestPack;
using testing::Attribute;
using testing::Node;
using testing::Text;

std::string TextsAttribute(const std::string& name, const std::vector<std::string>& texts) {
  std::string value;
  for (const std::string& text : texts) value += Text(tag::kAttributeStrings, text);
  return Attribute(name, tag::kStrings, value);
}

class NativeNodeTest : public ::testing::Test {
 protected:
  NativeNodeTest() {
    pack_.Add("my", "Op", 1).Add("my", "Op", 3).Add("com.microsoft", "Gelu");
    EXPECT_TRUE(packs_.Add(pack_.Get(), "libmy.so", Nobody).ok());
  }

  Status Write(const std::string& node, std::int64_t version, const char* runtime = "1.31.0") {
    const NodeHead head = ReadHead(node);
    std::shared_ptr<const Schema> schema;
    const std::string name = std::string(head.domain) + "::" + std::string(head.op_type);
    EXPECT_TRUE(packs_.Find("who", name, version, &schema).ok());
    Rope out;
    changed_ = false;
    Status status = WriteNative(node, head, *schema, DeclaredValues(nullptr),
                                LimitsOf(RuntimeVersion::Parse(runtime)), &out, &changed_);
    written_ = out.Gather();
    return status;
  }

  TestPack pack_;
  Packs packs_;
  std::string written_;
  bool changed_ = false;
};

TEST_F(NativeNodeTest, TextsWithZerosAreWrittenSoThatTheyReachTheKernel) {
  const std::vector<std::string> texts = {std::string("a\0b", 3), "c"};
  ASSERT_TRUE(Write(Node("Op", "my", {"x"}, {"y"}, TextsAttribute("names", texts)), 3).ok());
  EXPECT_TRUE(changed_);
  EXPECT_NE(written_.find(PackedName("names")), std::string::npos);
  EXPECT_NE(written_.find(PackTexts({texts[0], texts[1]})), std::string::npos);
}

TEST_F(NativeNodeTest, TheNewestVersionStaysAsItIs) {
  const std::string node = Node("Op", "my", {"x"}, {"y"}, TextsAttribute("names", {"a"}));
  ASSERT_TRUE(Write(node, 3).ok());
  EXPECT_FALSE(changed_);
  EXPECT_EQ(written_, node);
}

TEST_F(NativeNodeTest, OthersAreRenamed) {
  ASSERT_TRUE(Write(Node("Op", "my", {"x"}, {"y"}), 2).ok());
  EXPECT_TRUE(changed_);
  EXPECT_EQ(ReadHead(written_).op_type, "Op@1");
  EXPECT_EQ(ReadHead(written_).domain, "my");
  ASSERT_TRUE(Write(Node("Gelu", "com.microsoft", {"x"}, {"y"}), 1).ok());
  EXPECT_TRUE(changed_);
  EXPECT_EQ(ReadHead(written_).op_type, "Gelu");
  EXPECT_EQ(ReadHead(written_).domain, "ai.opgraft.com.microsoft");
  EXPECT_EQ(ReadText(written_, tag::kNodeInput), "x");
  EXPECT_EQ(ReadText(written_, tag::kNodeOutput), "y");
}

TEST_F(NativeNodeTest, ListsOfTextsAreOneTextForRuntimesThatWithholdThem) {
  const std::vector<std::string> texts = {"a", "", "1:b"};
  const std::string node = Node("Op", "my", {"x"}, {"y"}, TextsAttribute("names", texts));
  ASSERT_TRUE(Write(node, 3, "1.24.4").ok());
  EXPECT_TRUE(changed_);
  const std::string_view attribute = ReadText(written_, tag::kNodeAttribute);
  EXPECT_EQ(ReadAttributeHead(attribute).name, PackedName("names"));
  EXPECT_EQ(ReadAttributeHead(attribute).type, tag::kString);
  std::vector<std::string> read;
  ASSERT_TRUE(UnpackTexts(std::string(ReadText(attribute, tag::kAttributeString)), &read));
  EXPECT_EQ(read, texts);
}

TEST_F(NativeNodeTest, NodesThatDoNotFit) {
  const std::string named = Text(3, "n");  // NodeProto.name
  Status status = Write(Node("Op", "my", {"x", "x"}, {"y"}) + named, 3);
  EXPECT_EQ(status.kind(), ErrorKind::kModel);
  EXPECT_TRUE(status.message().starts_with("node 'n', operator my::Op: ")) << status.message();
  EXPECT_FALSE(Write(Node("Op", "my", {""}, {"y"}), 3).ok());
  EXPECT_FALSE(Write(Node("Op", "my", {"x"}, {"y", "z"}), 3).ok());
  EXPECT_FALSE(Write(Node("Op", "my", {"x"}, {"y"}, testing::TextAttribute("names", "a")), 3).ok());
  EXPECT_FALSE(Write(Node("Op", "my", {"x"}, {"y"}, testing::TextAttribute("other", "a")), 3).ok());
}

}  // namespace
}  // namespace opgraft::model
