#include "core/policy.h"

#include <gtest/gtest.h>

namespace opgraft {
namespace {

Policy Parsed(std::string_view allow, std::string_view environment = "") {
  Policy policy;
  const Status status = Policy::Parse(allow, environment, &policy);
  EXPECT_TRUE(status.ok()) << status.message();
  return policy;
}

TEST(PolicyTest, AllowsNothingByDefault) { EXPECT_FALSE(Parsed("").Allows("os")); }

TEST(PolicyTest, AnExactNameAllowsThatModuleAlone) {
  const Policy policy = Parsed("mymodule, package.module");
  EXPECT_TRUE(policy.Allows("mymodule"));
  EXPECT_TRUE(policy.Allows("package.module"));
  EXPECT_FALSE(policy.Allows("package"));
  EXPECT_FALSE(policy.Allows("mymodule.part"));
  EXPECT_FALSE(policy.Allows("mymodule2"));
  EXPECT_FALSE(policy.Allows("Mymodule"));
}

TEST(PolicyTest, APatternAllowsWhatIsBelowThePackage) {
  const Policy policy = Parsed("package.*");
  EXPECT_TRUE(policy.Allows("package.module"));
  EXPECT_TRUE(policy.Allows("package.part.module"));
  EXPECT_FALSE(policy.Allows("package"));
  EXPECT_FALSE(policy.Allows("package2.module"));
  EXPECT_FALSE(policy.Allows("package."));
  EXPECT_FALSE(policy.Allows("package..module"));
}

TEST(PolicyTest, AnEntryThatIsNoModuleNameIsRefused) {
  for (const char* entry : {"*", ".*", "a.*.b", "..", ".module", "a-b", "1a", "a b", "a\n"}) {
    Policy policy;
    const Status status = Policy::Parse(entry, "", &policy);
    EXPECT_EQ(status.kind(), ErrorKind::kError) << entry;
  }
}

TEST(PolicyTest, ThePatternIsNotForTheCommandOfAPackage) {
  EXPECT_FALSE(Parsed("package.*").Allows("package.__main__"));
  EXPECT_FALSE(Parsed("package.*").Allows("package.__init__.module"));
  EXPECT_TRUE(Parsed("package.*").Allows("package._private"));
  EXPECT_TRUE(Parsed("package.__main__").Allows("package.__main__"));
}

TEST(PolicyTest, ATypeIsAllowedByItsNameOrItsModule) {
  const Policy policy = Parsed("mymodule, other.Scaler, package.*");
  EXPECT_TRUE(policy.AllowsType("mymodule.Scaler"));
  EXPECT_TRUE(policy.AllowsType("other.Scaler"));
  EXPECT_TRUE(policy.AllowsType("other.Scaler.method"));
  EXPECT_TRUE(policy.AllowsType("package.module.Scaler"));
  EXPECT_FALSE(policy.AllowsType("other.Imputer"));
  EXPECT_FALSE(policy.AllowsType("mymodule"));
  EXPECT_FALSE(policy.AllowsType("mymodule.part.Scaler"));
  EXPECT_FALSE(policy.AllowsType("mymodule.__class__"));
  EXPECT_FALSE(policy.AllowsType("mymodule..Scaler"));
  EXPECT_FALSE(policy.AllowsType(""));
}

TEST(PolicyTest, OurModuleForStoredEstimatorsNeedsItsShortName) {
  constexpr char kModule[] = "opgraft.sklearn.operators";
  EXPECT_FALSE(Parsed("").Allows(kModule));
  EXPECT_FALSE(Parsed("opgraft, sklearn.*, opgraft.sklearn").Allows(kModule));
  EXPECT_TRUE(Parsed("sklearn").Allows(kModule));
  EXPECT_TRUE(Parsed("opgraft.sklearn.operators").Allows(kModule));
  EXPECT_TRUE(Policy::RunsWhatModelsHold(kModule));
  EXPECT_FALSE(Policy::RunsWhatModelsHold("opgraft.sklearn"));
  EXPECT_EQ(Policy::AllowanceOf(kModule), "sklearn");
  EXPECT_EQ(Policy::AllowanceOf("mymodule"), "mymodule");
}

TEST(PolicyTest, AShortNameAllowsNoModuleOrTypeOfThatName) {
  const Policy policy = Parsed("sklearn");
  EXPECT_FALSE(policy.Allows("sklearn"));
  EXPECT_FALSE(policy.Allows("sklearn.tree"));
  EXPECT_FALSE(policy.Allows("opgraft.sklearn"));
  EXPECT_FALSE(policy.Allows("opgraft.sklearn.operators.more"));
  EXPECT_FALSE(policy.AllowsType("sklearn.show_versions"));
  EXPECT_FALSE(policy.AllowsType("opgraft.sklearn.operators.importlib"));
}

TEST(PolicyTest, ARefusalOfAnEstimatorSaysWhatItCouldDo) {
  const std::string text = Parsed("").Refusal("node 'n'", "opgraft.sklearn.operators").message();
  EXPECT_NE(text.find("a stored scikit-learn estimator"), std::string::npos);
  EXPECT_NE(text.find("write files, start processes"), std::string::npos);
  EXPECT_NE(text.find("you trust this file as you trust a program"), std::string::npos);
  EXPECT_NE(text.find("allow=[\"sklearn\"]"), std::string::npos);
}

TEST(PolicyTest, ARefusalGivesNoLineForTheStandardLibrary) {
  for (const char* module :
       {"os", "os.path", "subprocess", "builtins", "posix", "cProfile", "imaplib", "zipimport"}) {
    const std::string text = Parsed("").Refusal("node 'n'", module).message();
    EXPECT_EQ(text.find("allow=["), std::string::npos) << text;
    EXPECT_EQ(text.find("--allow"), std::string::npos) << text;
    EXPECT_NE(text.find("do not allow it"), std::string::npos) << text;
  }
  EXPECT_EQ(Parsed("").TypesRefusal("n", {"mymodule.A", "os.system"}).message().find("allow=["),
            std::string::npos);
  EXPECT_NE(Parsed("").Refusal("node 'n'", "osmosis").message().find("allow=["), std::string::npos);
}

TEST(PolicyTest, ARefusalOfTypesNamesThem) {
  const Status status = Parsed("other").TypesRefusal("node 'n'", {"m.A", "m.B"});
  EXPECT_EQ(status.kind(), ErrorKind::kPolicy);
  EXPECT_NE(status.message().find("allow=[\"m.A\", \"m.B\"]"), std::string::npos);
  EXPECT_NE(status.message().find("OPGRAFT_ALLOW=m.A,m.B"), std::string::npos);
}

TEST(PolicyTest, TheEnvironmentAdds) {
  const Policy policy = Parsed("mymodule", "fromenvironment,other");
  EXPECT_TRUE(policy.Allows("fromenvironment"));
  EXPECT_TRUE(policy.Allows("mymodule"));
}

TEST(PolicyTest, ARefusalPrintsTheLineThatWouldAllow) {
  const Status status = Parsed("other").Refusal("node 'n'", "mymodule");
  EXPECT_EQ(status.kind(), ErrorKind::kPolicy);
  EXPECT_NE(status.message().find("allow=[\"mymodule\"]"), std::string::npos);
  EXPECT_NE(status.message().find("OPGRAFT_ALLOW=mymodule"), std::string::npos);
  EXPECT_NE(status.message().find("(allowed: other)"), std::string::npos);
}

TEST(PolicyTest, OperatorsOfTorchAreAllowedByName) {
  const Policy policy = Parsed("aten::from_file, aten::set.source_Tensor, mymodule");
  EXPECT_TRUE(policy.AllowsOperator("aten::from_file"));
  EXPECT_TRUE(policy.AllowsOperator("aten::from_file.out"));
  EXPECT_TRUE(policy.AllowsOperator("aten::set.source_Tensor"));
  EXPECT_FALSE(policy.AllowsOperator("aten::set"));
  EXPECT_FALSE(policy.AllowsOperator("aten::from"));
  EXPECT_FALSE(policy.AllowsOperator("mymodule"));
  EXPECT_FALSE(policy.Allows("aten"));
  EXPECT_FALSE(policy.Allows("from_file"));
  const Status refusal = policy.OperatorRefusal("node 'n'", "aten::empty");
  EXPECT_EQ(refusal.kind(), ErrorKind::kPolicy);
  EXPECT_NE(refusal.message().find("allow=[\"aten::empty\"]"), std::string::npos);
}

TEST(PolicyTest, WhatIsNoNameOfAnOperatorIsAnError) {
  for (const char* entry :
       {"aten::", "::name", "aten:name", "aten::a.b.c", "aten::*", "aten::a::b"}) {
    Policy policy;
    EXPECT_FALSE(Policy::Parse(entry, "", &policy).ok()) << entry;
  }
}

}  // namespace
}  // namespace opgraft
