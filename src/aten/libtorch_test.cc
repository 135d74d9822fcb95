// Tests of finding libtorch that do not need one.
#include "aten/libtorch.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/platform.h"

namespace opgraft::aten {
namespace {

TEST(LibtorchTest, AnotherLibraryIsUnavailable) {
  Libtorch libtorch;
  const Status none = LoadLibtorch("/nowhere/libtorch_cpu.so", &libtorch);
  EXPECT_EQ(none.kind(), ErrorKind::kUnavailable);
  EXPECT_NE(none.message().find("OPGRAFT_LIBTORCH"), std::string::npos) << none.message();

  const Status other = LoadLibtorch(platform::PathOfLoaded("libc.so.6"), &libtorch);
  EXPECT_EQ(other.kind(), ErrorKind::kUnavailable);
  EXPECT_NE(other.message().find("is not libtorch, or is too old: it has no "
                                 "aoti_torch_abi_version"),
            std::string::npos)
      << other.message();
}

TEST(LibtorchTest, AMissingLibraryIsUnavailable) {
  const Libtorch* libtorch = nullptr;
  setenv("OPGRAFT_LIBTORCH", "/nowhere", 1);
  const Status named = GetLibtorch(nullptr, &libtorch);
  EXPECT_EQ(named.kind(), ErrorKind::kUnavailable);
  EXPECT_NE(named.message().find("OPGRAFT_LIBTORCH is '/nowhere'"), std::string::npos);

  unsetenv("OPGRAFT_LIBTORCH");
  EXPECT_EQ(GetLibtorch(nullptr, &libtorch).kind(), ErrorKind::kUnavailable);
  const FindInstalled find = [](std::string*) { return Status::Unavailable("no torch here"); };
  const Status found = GetLibtorch(find, &libtorch);
  EXPECT_EQ(found.kind(), ErrorKind::kUnavailable);
  EXPECT_TRUE(found.message().starts_with("no torch here, and ATen nodes run in libtorch. Fix: "));
}

}  // namespace
}  // namespace opgraft::aten
