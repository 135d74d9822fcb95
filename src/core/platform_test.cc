#include "core/platform.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdio>
#include <fstream>

namespace opgraft::platform {
namespace {

ProgramResult Ran(const std::vector<std::string>& arguments) {
  ProgramResult result;
  const Status status = RunProgram(arguments, &result);
  EXPECT_TRUE(status.ok()) << status.message();
  return result;
}

/// A path that no other test uses, because tests run in parallel.
std::string TestPath() {
  return testing::TempDir() + "opgraft_platform_" +
         testing::UnitTest::GetInstance()->current_test_info()->name();
}

std::string WriteFile(const std::string& contents) {
  const std::string path = TestPath();
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

TEST(RunProgramTest, GivesTheExitStatus) {
  EXPECT_EQ(Ran({"sh", "-c", "exit 0"}).exit_status, 0);
  EXPECT_EQ(Ran({"sh", "-c", "exit 7"}).exit_status, 7);
}

TEST(RunProgramTest, GivesTheSignalAsAShellDoes) {
  EXPECT_EQ(Ran({"sh", "-c", "kill -KILL $$"}).exit_status, 128 + SIGKILL);
}

TEST(RunProgramTest, GathersBothStreams) {
  EXPECT_EQ(Ran({"sh", "-c", "echo out; echo err >&2; echo out again"}).output,
            "out\nerr\nout again\n");
}

TEST(RunProgramTest, GathersMoreThanAPipeHolds) {
  EXPECT_EQ(Ran({"sh", "-c", "head -c 300000 /dev/zero"}).output, std::string(300000, '\0'));
}

TEST(RunProgramTest, HandsArgumentsOverAsTheyAre) {
  EXPECT_EQ(Ran({"printf", "%s|", "a b", "$HOME", ""}).output, "a b|$HOME||");
}

TEST(RunProgramTest, TheProgramHasNothingToRead) { EXPECT_EQ(Ran({"cat"}).output, ""); }

TEST(RunProgramTest, AMissingProgramIsNamed) {
  ProgramResult result;
  const Status status = RunProgram({"opgraft-no-such-program"}, &result);
  EXPECT_EQ(status.kind(), ErrorKind::kUnavailable);
  EXPECT_NE(status.message().find("'opgraft-no-such-program'"), std::string::npos);
  EXPECT_NE(status.message().find("No such file"), std::string::npos);
}

TEST(ReadFileTest, GivesEveryByte) {
  const std::string bytes("\0\r\n\xff\x1a end", 9);
  std::string contents = "what was there before";
  const Status status = ReadFile(WriteFile(bytes), &contents);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(contents, bytes);
}

TEST(ReadFileTest, AnEmptyFileIsReadLikeAnyOther) {
  std::string contents = "what was there before";
  const Status status = ReadFile(WriteFile(""), &contents);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(contents, "");
}

TEST(ReadFileTest, AMissingFileIsNamed) {
  const std::string path = TestPath();
  std::string contents;
  const Status status = ReadFile(path, &contents);
  EXPECT_EQ(status.kind(), ErrorKind::kError);
  EXPECT_NE(status.message().find("'" + path + "'"), std::string::npos);
  EXPECT_NE(status.message().find("No such file"), std::string::npos);
}

TEST(ReadFileTest, AFolderIsNoFile) {
  std::string contents;
  EXPECT_EQ(ReadFile(testing::TempDir(), &contents).kind(), ErrorKind::kError);
}

TEST(MappedFileTest, HasWhatTheFileHas) {
  const std::string contents(100'000, 'c');
  MappedFile file;
  ASSERT_TRUE(file.Open(WriteFile(contents)).ok());
  EXPECT_EQ(file.contents(), contents);
  EXPECT_EQ(file.identity(), IdentityOf(TestPath()));
}

TEST(MappedFileTest, TakesAnEmptyFileAndOneWithoutASize) {
  MappedFile empty;
  ASSERT_TRUE(empty.Open(WriteFile("")).ok());
  EXPECT_EQ(empty.contents(), "");
  MappedFile process;  // it has contents, but its reported size is 0
  ASSERT_TRUE(process.Open("/proc/self/cmdline").ok());
  EXPECT_NE(process.contents(), "");
  EXPECT_EQ(process.identity(), FileIdentity());
}

TEST(MappedFileTest, RefusesWhatMayNeverEnd) {
  const std::string fifo = TestPath();
  (void)std::remove(fifo.c_str());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  MappedFile pipe;
  EXPECT_NE(pipe.Open(fifo).message().find("it is a FIFO"), std::string::npos);
  MappedFile device;
  EXPECT_NE(device.Open("/dev/zero").message().find("it is a device"), std::string::npos);
  MappedFile cut;
  EXPECT_NE(cut.Open(std::string("/proc/self/cmdline\0x", 20)).message().find("zero byte"),
            std::string::npos);
  (void)std::remove(fifo.c_str());
}

TEST(MappedFileTest, SaysWhatCannotBeRead) {
  MappedFile missing;
  EXPECT_NE(missing.Open(TestPath()).message().find("No such file"), std::string::npos);
  MappedFile folder;
  EXPECT_FALSE(folder.Open(testing::TempDir()).ok());
}

TEST(MappedFileTest, AFileThatIsWrittenAgainIsAnother) {
  const FileIdentity before = IdentityOf(WriteFile("one"));
  EXPECT_EQ(IdentityOf(TestPath()), before);
  EXPECT_NE(IdentityOf(WriteFile("other")), before);
}

TEST(LoadLibraryTest, AMissingLibraryIsNamed) {
  int not_null = 0;
  void* library = &not_null;
  const Status status = LoadLibrary("/no/such/libopgraft.so", false, &library);
  EXPECT_EQ(status.kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(library, nullptr);
  EXPECT_TRUE(status.message().starts_with("cannot load /no/such/libopgraft.so: "));
  EXPECT_EQ(status.message().rfind("libopgraft.so"), std::string("cannot load /no/such/").size());
  EXPECT_NE(status.message().find("No such file"), std::string::npos);
}

TEST(LoadLibraryTest, AFileThatIsNoLibraryIsRefused) {
  void* library = nullptr;
  EXPECT_EQ(LoadLibrary(WriteFile("no library"), false, &library).kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(library, nullptr);
}

TEST(LoadLibraryTest, FindsTheFunctionsOfALibrary) {
  void* library = nullptr;
  const Status status = LoadLibrary("libm.so.6", false, &library);
  ASSERT_TRUE(status.ok()) << status.message();
  auto* const square_root = reinterpret_cast<double (*)(double)>(FindSymbol(library, "sqrt"));
  ASSERT_NE(square_root, nullptr);
  EXPECT_EQ(square_root(9), 3);
  EXPECT_EQ(FindSymbol(library, "opgraft_no_such_function"), nullptr);
}

TEST(PathOfLoadedTest, FindsALibraryByItsName) {
  EXPECT_TRUE(PathOfLoaded("libc.so.6").ends_with("/libc.so.6"));
  EXPECT_EQ(PathOfLoaded("libopgraft_no_such_library.so"), "");
}

TEST(FindSymbolTest, FindsWhatTheProcessHasLoaded) {
  EXPECT_NE(FindSymbol("malloc"), nullptr);
  EXPECT_EQ(FindSymbol("opgraft_no_such_function"), nullptr);
}

}  // namespace
}  // namespace opgraft::platform
