#include "core/packs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/domains.h"
#include "core/test_packs.h"

namespace opgraft {
namespace {

using testing::Nobody;
using testing::TestPack;

std::shared_ptr<const Schema> FindIn(const Packs& packs, std::string_view name,
                                     std::int64_t version = 0) {
  std::shared_ptr<const Schema> schema;
  EXPECT_TRUE(packs.Find("who", name, version, &schema).ok());
  return schema;
}

TEST(PacksTest, TheNewestVersionThatIsNotAboveTheOneAskedFor) {
  TestPack pack;
  pack.Add("my", "Op", 3).Add("my", "Op", 1).Add("my", "Op", 5).Add("my", "Late", 4);
  Packs packs;
  ASSERT_TRUE(packs.Add(pack.Get(), "libmy.so", Nobody).ok());
  for (const auto& [version, since] :
       {std::pair{0, 5}, {1, 1}, {2, 1}, {3, 3}, {4, 3}, {5, 5}, {99, 5}}) {
    const auto found = FindIn(packs, "my::Op", version);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->since_version, since) << version;
  }
  std::shared_ptr<const Schema> schema;
  const Status status = packs.Find("node 'n'", "my::Late", 3, &schema);
  EXPECT_EQ(status.kind(), ErrorKind::kModel);
  EXPECT_EQ(status.message(),
            "node 'n': the model imports version 3 of 'my', but the pack libmy.so has the operator "
            "from version 4 on");
  EXPECT_EQ(FindIn(packs, "my::Other"), nullptr);
  EXPECT_EQ(FindIn(packs, "::Op"), nullptr);
}

TEST(PacksTest, WhatNodesAreCalledForTheRuntime) {
  TestPack pack;
  pack.Add("my", "Op", 1).Add("my", "Op", 3).Add("com.microsoft", "Gelu").Add("ai.onnx", "Relu", 6);
  pack.Add("ai.opgraft", "Own");
  Packs packs;
  ASSERT_TRUE(packs.Add(pack.Get(), "libmy.so", Nobody).ok());
  const auto name = [&](std::string_view full_name, std::int64_t version) {
    return FindIn(packs, full_name, version)->native->RuntimeFullName();
  };
  EXPECT_EQ(name("my::Op", 1), "my::Op@1");
  EXPECT_EQ(name("my::Op", 3), "my::Op");
  EXPECT_EQ(name("com.microsoft::Gelu", 1), "ai.opgraft.com.microsoft::Gelu");
  EXPECT_EQ(name("::Relu", 21), "ai.opgraft.ai.onnx::Relu");
  EXPECT_EQ(name("ai.opgraft::Own", 1), "ai.opgraft.ai.opgraft::Own");
  EXPECT_EQ(FindIn(packs, "my::Op", 1)->native->domain_version, 3);
  // Nodes of prepared models are found by these names.
  EXPECT_EQ(FindIn(packs, "my::Op@1", 3)->since_version, 1);
  EXPECT_EQ(FindIn(packs, "ai.opgraft.ai.onnx::Relu", 6)->FullName(), "::Relu");
}

TEST(PacksTest, OneOwnerForEachName) {
  TestPack first;
  TestPack second;
  first.Add("my", "Op");
  second.Add("my", "Fresh").Add("my", "Op", 2);
  Packs packs;
  ASSERT_TRUE(packs.Add(first.Get(), "libfirst.so", Nobody).ok());
  EXPECT_TRUE(packs.Add(first.Get(), "libfirst.so", Nobody).ok());
  EXPECT_EQ(packs.operators().size(), 1U);
  const Status status = packs.Add(second.Get(), "libsecond.so", Nobody);
  EXPECT_EQ(status.kind(), ErrorKind::kError);
  EXPECT_EQ(status.message(),
            "my::Op is declared by the pack 'libfirst.so' and by the pack 'libsecond.so'; only one "
            "of them can have it");
  EXPECT_EQ(FindIn(packs, "my::Fresh"), nullptr);
  EXPECT_EQ(packs.OwnerOf("my::Op"), "libfirst.so");
  EXPECT_EQ(packs.OwnerOf("my::Fresh"), "");
}

TEST(PacksTest, TwoOfAPackMayNotBeOne) {
  const auto refusal = [](const TestPack& pack) {
    Packs packs;
    const Status status = packs.Add(pack.Get(), "libmy.so", Nobody);
    EXPECT_TRUE(packs.operators().empty());
    return status.message();
  };
  TestPack same;
  same.Add("my", "Op").Add("my", "Other").Add("my", "Op");
  EXPECT_NE(refusal(same).find("operator 0 of the pack, my::Op of version 1, and operator 2 of the "
                               "pack, my::Op of version 1, are the same operator"),
            std::string::npos);
  TestPack older;
  older.Add("my", "Op").Add("my", "Op").Add("my", "Op", 2);
  EXPECT_NE(refusal(older), "");
  TestPack domains;
  domains.Add("ai.onnx", "Relu").Add("", "Relu");
  EXPECT_NE(refusal(domains), "");
  TestPack names;  // the third is the runtime's name of the first
  names.Add("my", "Op").Add("my", "Op", 2).Add("my", "Op@1");
  EXPECT_NE(refusal(names), "");
}

TEST(PacksTest, SomeoneElseMayOwnAName) {
  TestPack pack;
  pack.Add("my", "Fresh").Add("my", "Op");
  Packs packs;
  const Status status = packs.Add(pack.Get(), "libmy.so", [](std::string_view name) {
    return name == "my::Op" ? "the Python module 'm'" : "";
  });
  EXPECT_EQ(status.message(),
            "my::Op is declared by the Python module 'm' and by the pack 'libmy.so'; only one of "
            "them can have it");
  EXPECT_TRUE(packs.operators().empty());
}

TEST(PacksTest, WhatIsRefused) {
  Packs packs;
  OpgraftPack pack = TestPack().Get(OPGRAFT_PACK_VERSION + 1);
  Status status = packs.Add(pack, "libnew.so", Nobody);
  EXPECT_EQ(status.kind(), ErrorKind::kUnavailable);
  EXPECT_NE(status.message().find("version " + std::to_string(OPGRAFT_PACK_VERSION + 1) + " of"),
            std::string::npos);
  EXPECT_NE(status.message().find("up to version " + std::to_string(OPGRAFT_PACK_VERSION) + "."),
            std::string::npos);
  pack = TestPack().Get();
  pack.problem = "my::Op: it is declared twice";
  status = packs.Add(pack, "libbad.so", Nobody);
  EXPECT_EQ(status.message(), "the pack 'libbad.so': my::Op: it is declared twice");
  EXPECT_EQ(packs.Load("/no/such.so", Nobody).kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(packs.Load("/", Nobody).kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(packs.Load("", Nobody).kind(), ErrorKind::kUnavailable);
}

TEST(PacksTest, TheRuntimesOwnDomains) {
  for (const std::string_view domain : {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}) {
    EXPECT_TRUE(IsRuntimeDomain(domain)) << domain;
  }
  for (const std::string_view domain : {"my", "com.microsoft.mine", "ai.opgraft.com.microsoft"}) {
    EXPECT_FALSE(IsRuntimeDomain(domain)) << domain;
  }
}

}  // namespace
}  // namespace opgraft
