#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "flambeau/base/error.h"
#include "flambeau/base/files.h"
#include "flambeau/base/hash.h"
#include "flambeau/base/settings.h"

namespace flambeau {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/flambeau_files_XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { fs::remove_all(folder_); }
  size_t entries() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }
  std::string folder_;
};

template <class F>
std::string message_of(F&& action, ErrorKind kind = ErrorKind::runtime) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "no error";
}

TEST_F(Files, WriteAndRead) {
  std::string path = folder_ + "/a";
  std::string content(100'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7);
  write_file_atomically(path, content);
  EXPECT_EQ(read_file(path), content);
  EXPECT_EQ(try_read_file(path), content);
  write_file_atomically(path, "");
  EXPECT_EQ(read_file(path), "");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, FilesWithoutASizeAreReadToTheirEnd) {
  EXPECT_NE(read_file("/proc/self/status").find("Name:"), std::string::npos);
}

TEST_F(Files, Errors) {
  EXPECT_EQ(message_of([&] { read_file(folder_ + "/none"); }),
            "cannot read '" + folder_ + "/none': No such file or directory");
  EXPECT_EQ(message_of([&] { read_file(folder_); }),
            "cannot read '" + folder_ + "': Is a directory");
  EXPECT_EQ(try_read_file(folder_), std::nullopt);
  EXPECT_EQ(message_of([&] { write_file_atomically(folder_ + "/x/y", "z"); }),
            "cannot write '" + folder_ + "/x/y': No such file or directory");
  EXPECT_EQ(message_of([&] { MappedFile(folder_ + "/none"); }),
            "cannot read '" + folder_ + "/none': No such file or directory");
  EXPECT_EQ(message_of([&] { MappedFile{folder_}; }),
            "cannot map '" + folder_ + "': Is a directory");
}

TEST_F(Files, FailedWriteLeavesNothingBehind) {
  ASSERT_TRUE(make_folders(folder_ + "/target"));
  EXPECT_EQ(message_of([&] { write_file_atomically(folder_ + "/target", "z"); }),
            "cannot write '" + folder_ + "/target': Is a directory");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, ReadersSeeOldOrNew) {
  std::string path = folder_ + "/shared";
  std::string old_content(50'000, 'o'), new_content(70'000, 'n');
  write_file_atomically(path, old_content);
  std::vector<std::thread> writers;
  for (int t = 0; t < 2; ++t) {
    writers.emplace_back([&] {
      for (int i = 0; i < 100; ++i) write_file_atomically(path, i % 2 ? old_content : new_content);
    });
  }
  for (int i = 0; i < 300; ++i) {
    std::string seen = read_file(path);
    ASSERT_TRUE(seen == old_content || seen == new_content);
  }
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, Folders) {
  EXPECT_TRUE(make_folders(folder_ + "/a/b/c"));
  EXPECT_TRUE(make_folders(folder_ + "/a/b/c"));
  write_file_atomically(folder_ + "/file", "x");
  EXPECT_FALSE(make_folders(folder_ + "/file/below"));
  EXPECT_FALSE(make_folders(folder_ + "/file"));
}

TEST_F(Files, Maps) {
  std::string path = folder_ + "/m";
  write_file_atomically(path, "hello");
  {
    MappedFile map(path);
    EXPECT_EQ(std::string(map.data(), map.size()), "hello");
    map.data()[0] = 'j';
  }
  EXPECT_EQ(read_file(path), "hello");
  write_file_atomically(path, "");
  MappedFile empty(path);
  EXPECT_EQ(empty.size(), 0u);
}

TEST(Settings, Values) {
  ::setenv("FLAMBEAU_TEST_SETTING", "12", 1);
  EXPECT_EQ(setting("FLAMBEAU_TEST_SETTING", "x"), "12");
  EXPECT_EQ(setting_integer("FLAMBEAU_TEST_SETTING", 3), 12);
  for (const char* bad : {"12x", "x", " 1", "1.5", "99999999999999999999"}) {
    ::setenv("FLAMBEAU_TEST_SETTING", bad, 1);
    EXPECT_EQ(message_of([] { setting_integer("FLAMBEAU_TEST_SETTING", 3); }, ErrorKind::value),
              text("FLAMBEAU_TEST_SETTING must be an integer of 64 bits; got '", bad, "'"));
  }
  ::setenv("FLAMBEAU_TEST_SETTING", "", 1);
  EXPECT_EQ(setting("FLAMBEAU_TEST_SETTING", "x"), "x");
  EXPECT_EQ(setting_integer("FLAMBEAU_TEST_SETTING", 3), 3);
  ::setenv("FLAMBEAU_DUMP", "graph,llvm", 1);
  EXPECT_TRUE(dump_enabled("graph"));
  EXPECT_TRUE(dump_enabled("llvm"));
  EXPECT_FALSE(dump_enabled("gra"));
  EXPECT_FALSE(dump_enabled(""));
}

TEST(Hash, EachByteAndLengthCounts) {
  std::vector<uint64_t> seen;
  std::string bytes(100, '\0');
  for (size_t size = 0; size <= 100; ++size) seen.push_back(hash_bytes(bytes.data(), size));
  for (size_t i = 0; i < 100; ++i) {
    bytes[i] = 1;
    seen.push_back(hash_text(bytes));
    bytes[i] = 0;
  }
  seen.push_back(hash_bytes(bytes.data(), 100, 1));
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

// Stored caches carry these hashes: a change of the function must be noticed.
TEST(Hash, IsTheSameInEveryProcess) {
  EXPECT_EQ(hash_text(""), 0x226f793513bd8d13u);
  EXPECT_EQ(hash_text("abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"), 0x6cdff67dad646e05u);
}

}  // namespace
}  // namespace flambeau
