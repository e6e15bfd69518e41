// The caches of compiled code: what is found, what is made again, and that neither damage on disk
// nor other threads and processes change a result.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "flambeau/base/error.h"
#include "flambeau/base/files.h"
#include "flambeau/emit/code.h"
#include "flambeau/emit/disk_cache.h"
#include "flambeau/emit/object.h"
#include "flambeau/loop/builder.h"

namespace flambeau {
namespace {

namespace fs = std::filesystem;
using emit::DiskCache;
using loop::Builder;
using loop::Scalar;
using loop::Value;

fs::path work_folder() {
  static const fs::path folder = fs::temp_directory_path() / text("flambeau_cache_test_", getpid());
  return folder;
}

// Before any test: the settings are read at the first use of the caches.
class Settings : public testing::Environment {
 public:
  void SetUp() override {
    owner_ = getpid();
    fs::create_directories(work_folder());
    setenv("FLAMBEAU_CACHE_DIR", (work_folder() / "process").c_str(), 1);
    setenv("FLAMBEAU_CODE_CACHE_MODULES", "3", 1);
    setenv("FLAMBEAU_TARGET", "x86-64-v3", 1);
  }
  void TearDown() override {
    if (getpid() == owner_) fs::remove_all(work_folder());
  }

 private:
  pid_t owner_ = 0;
};
[[maybe_unused]] testing::Environment* const settings =
    testing::AddGlobalTestEnvironment(new Settings);

// out[i] = in[i] * 3 + constant; each constant is a module of its own.
loop::Module module_of(int64_t constant) {
  Builder b("f");
  const Value out = b.slot(0, Scalar::ptr);
  const Value in = b.slot(1, Scalar::ptr);
  const loop::Type vector{Scalar::i64, 4};
  b.loop(b.begin(), b.end(), 4, {}, [&](Value i, const std::vector<Value>&) {
    const Value x = b.load(in, i, vector);
    b.store(out, i, b.add(b.mul(x, b.integer(3, vector)), b.integer(constant, vector)));
    return std::vector<Value>{};
  });
  return {{b.finish()}};
}

bool right(const emit::Code& code, int64_t constant) {
  const int64_t in[8] = {1, 2, 3, 4, -5, 6, 7, 8};
  int64_t out[8] = {};
  const int64_t slots[] = {reinterpret_cast<int64_t>(out), reinterpret_cast<int64_t>(in)};
  code.entries()[0](slots, 0, 8, 0);
  for (int i = 0; i < 8; ++i) {
    if (out[i] != in[i] * 3 + constant) return false;
  }
  return true;
}

bool compiles_right(int64_t constant) {
  return right(*emit::compile(module_of(constant)), constant);
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path());
  return out;
}

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(DiskCacheFiles, KeepsAndFinds) {
  const fs::path folder = work_folder() / "keeps" / "deep";
  DiskCache cache(folder, 1 << 20);
  EXPECT_FALSE(cache.find("key"));
  cache.store("key", std::string("ob\0ject", 7));
  cache.store("other", "thing");
  EXPECT_EQ(cache.find("key"), std::string("ob\0ject", 7));
  EXPECT_EQ(cache.find("other"), "thing");
  EXPECT_FALSE(cache.find("ke"));
  EXPECT_EQ(DiskCache(folder, 1 << 20).find("key"), std::string("ob\0ject", 7));
  EXPECT_EQ(files_in(folder).size(), 2u);
}

TEST(DiskCacheFiles, DamageIsAMiss) {
  const fs::path folder = work_folder() / "damage";
  DiskCache cache(folder, 1 << 20);
  cache.store("some key", "some object");
  const std::string path = cache.path("some key");
  const std::string good = read_file(path);
  for (size_t length = 0; length < good.size(); ++length) {
    write_file_atomically(path, good.substr(0, length));
    EXPECT_FALSE(cache.find("some key")) << length;
  }
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    write_file_atomically(path, bad);
    EXPECT_FALSE(cache.find("some key")) << at;
  }
  write_file_atomically(path, good + "x");
  EXPECT_FALSE(cache.find("some key"));
  write_file_atomically(path, "a file of somebody else");
  EXPECT_FALSE(cache.find("some key"));
  // As if the hashes of two keys collided.
  write_file_atomically(cache.path("another key"), good);
  EXPECT_FALSE(cache.find("another key"));
  cache.store("some key", "some object");
  EXPECT_EQ(cache.find("some key"), "some object");
}

TEST(DiskCacheFiles, FolderThatCannotBeWritten) {
  DiskCache off("", 1 << 20);
  off.store("key", "object");
  EXPECT_FALSE(off.find("key"));

  const std::string file = work_folder() / "no_folder";
  write_file_atomically(file, "x");
  DiskCache inside_file(file + "/cache", 1 << 20);
  inside_file.store("key", "object");
  EXPECT_FALSE(inside_file.find("key"));

  const fs::path folder = work_folder() / "read_only";
  DiskCache cache(folder, 1 << 20);
  cache.store("key", "object");
  chmod(folder.c_str(), 0500);
  cache.store("new key", "object");
  EXPECT_EQ(cache.find("key"), "object");
  EXPECT_EQ(files_in(folder).size(), geteuid() == 0 ? 2u : 1u);  // root may write everywhere
  chmod(folder.c_str(), 0700);
}

TEST(DiskCacheFiles, OldestGoFirst) {
  const fs::path folder = work_folder() / "bounded";
  DiskCache cache(folder, 10000);
  const std::string object(900, 'x');
  for (int i = 0; i < 40; ++i) {
    cache.store(text("key ", i), object);
    // Ages in the past, in order, except that key 0 stays the newest by being used.
    const auto age = std::chrono::seconds(1000 - i);
    fs::last_write_time(cache.path(text("key ", i)), fs::file_time_type::clock::now() - age);
    EXPECT_TRUE(cache.find("key 0")) << i;
  }
  int64_t total = 0;
  for (const fs::path& path : files_in(folder)) total += static_cast<int64_t>(fs::file_size(path));
  EXPECT_LE(total, 10000);
  EXPECT_GE(total, 5000);
  EXPECT_FALSE(cache.find("key 1"));
  EXPECT_TRUE(cache.find("key 39"));
  // What a killed writer left goes too, what is being written stays.
  write_file_atomically(folder / "old.code.1.2.tmp", "x");
  write_file_atomically(folder / "new.code.1.3.tmp", "x");
  fs::last_write_time(folder / "old.code.1.2.tmp",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  cache.store("one more", object);
  EXPECT_FALSE(fs::exists(folder / "old.code.1.2.tmp"));
  EXPECT_TRUE(fs::exists(folder / "new.code.1.3.tmp"));
}

TEST(CodeCache, MemoryThenDisk) {
  const auto before = emit::cache_statistics();
  EXPECT_TRUE(compiles_right(1));
  EXPECT_TRUE(compiles_right(1));
  auto now = emit::cache_statistics();
  EXPECT_EQ(now.compiled - before.compiled, 1);
  EXPECT_EQ(now.memory_hits - before.memory_hits, 1);
  EXPECT_GT(now.seconds, before.seconds);
  // Three modules fit; the one that was used last stays.
  EXPECT_TRUE(compiles_right(2));
  EXPECT_TRUE(compiles_right(3));
  EXPECT_TRUE(compiles_right(1));
  EXPECT_TRUE(compiles_right(4));
  EXPECT_TRUE(compiles_right(1));
  now = emit::cache_statistics();
  EXPECT_EQ(now.compiled - before.compiled, 4);
  EXPECT_EQ(now.memory_hits - before.memory_hits, 3);
  EXPECT_EQ(now.disk_hits, before.disk_hits);
  EXPECT_TRUE(compiles_right(2));
  now = emit::cache_statistics();
  EXPECT_EQ(now.compiled - before.compiled, 4);
  EXPECT_EQ(now.disk_hits - before.disk_hits, 1);
}

TEST(CodeCache, CodeLivesWhileItIsHeld) {
  std::shared_ptr<const emit::Code> held = emit::compile(module_of(10));
  std::weak_ptr<const emit::Code> dropped = emit::compile(module_of(11));
  for (int64_t i = 12; i < 16; ++i) EXPECT_TRUE(compiles_right(i));
  EXPECT_TRUE(dropped.expired());
  EXPECT_TRUE(right(*held, 10));
}

TEST(CodeCache, DamagedFilesAreMadeAgain) {
  EXPECT_TRUE(compiles_right(20));
  const fs::path folder = work_folder() / "process";
  for (int round = 0; round < 3; ++round) {
    for (const fs::path& path : files_in(folder)) {
      const std::string good = read_file(path);
      write_file_atomically(path, round == 0   ? good.substr(0, good.size() / 2)
                                  : round == 1 ? std::string(good.size(), '\0')
                                               : "");
    }
    for (int64_t i = 21; i < 25; ++i) EXPECT_TRUE(compiles_right(i + 100 * round));
    const auto before = emit::cache_statistics();
    EXPECT_TRUE(compiles_right(20));
    EXPECT_EQ(emit::cache_statistics().compiled - before.compiled, 1);
  }
}

TEST(CodeCache, WholeFileWithUnusableObject) {
  // A stored object that does not link is replaced. The key is found by looking into the file.
  const fs::path folder = work_folder() / "process";
  fs::remove_all(folder);
  EXPECT_TRUE(compiles_right(30));
  for (const fs::path& path : files_in(folder)) {
    const std::string content = read_file(path);
    uint64_t key_size;
    std::memcpy(&key_size, content.data() + 8, sizeof key_size);
    const std::string key = content.substr(32, key_size);
    DiskCache cache(folder, 1 << 30);
    ASSERT_TRUE(cache.find(key));
    cache.store(key, "no object at all");
  }
  for (int64_t i = 31; i < 35; ++i) EXPECT_TRUE(compiles_right(i));
  EXPECT_TRUE(compiles_right(30));
}

TEST(CodeCache, OtherTargetsAreOtherCode) {
  EXPECT_TRUE(compiles_right(40));
  const auto before = emit::cache_statistics();
  emit::set_target({"x86-64-v3", 16});
  EXPECT_TRUE(compiles_right(40));
  emit::set_target({"x86-64-v3", 32});
  EXPECT_TRUE(compiles_right(40));
  const auto now = emit::cache_statistics();
  EXPECT_EQ(now.compiled - before.compiled, 1);
  EXPECT_EQ(now.memory_hits - before.memory_hits, 1);
  EXPECT_EQ(message([] { emit::set_target({"x86-64-v2", 16}); }),
            "target features must be x86-64-v3 or x86-64-v4; got 'x86-64-v2'");
  EXPECT_EQ(message([] { emit::set_target({"x86-64-v3", 8}); }),
            "target vector bytes must be 16, 32 or 64; got 8");
  EXPECT_EQ(emit::target().vector_bytes, 32);
}

TEST(CodeCache, InvalidModuleIsAnErrorEachTime) {
  loop::Module bad = module_of(50);
  bad.functions[0].types[0] = {Scalar::f32, 1};
  for (int i = 0; i < 2; ++i) {
    EXPECT_NE(message([&] { emit::compile(bad); }).find("internal error: loop IR of f"),
              std::string::npos);
  }
}

TEST(CodeCache, ObjectsThatAreNotOurs) {
  const loop::Module module = module_of(1);
  EXPECT_NE(message([&] { emit::load_object("", module); }), "no error");
  EXPECT_NE(message([&] { emit::load_object(std::string(200, 'x'), module); }), "no error");
}

TEST(CodeCache, ThreadsWaitForOneCompilation) {
  const auto before = emit::cache_statistics();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int64_t i = 60; i < 63; ++i) good += compiles_right(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 24);
  EXPECT_EQ(emit::cache_statistics().compiled - before.compiled, 3);
}

TEST(CodeCache, ThreadsWithManyModules) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 30; ++i) good += compiles_right(1000 + (i * (t + 1)) % 40);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 120);
}

// Runs `body` in a child, which must return true in time.
pid_t start_child(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(60);
  _exit(body() ? 0 : 1);
}

bool ended_well(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(CodeCache, ProcessesShareAFolder) {
  std::vector<pid_t> children;
  for (int c = 0; c < 4; ++c) {
    children.push_back(start_child([] {
      bool ok = true;
      for (int64_t i = 2000; i < 2040; ++i) ok = ok && compiles_right(i);
      return ok;
    }));
  }
  for (pid_t child : children) EXPECT_TRUE(ended_well(child));
  const auto before = emit::cache_statistics();
  for (int64_t i = 2000; i < 2040; ++i) EXPECT_TRUE(compiles_right(i));
  EXPECT_EQ(emit::cache_statistics().disk_hits - before.disk_hits, 40);
}

TEST(CodeCache, ForkDuringCompilation) {
  std::atomic<bool> stop{false};
  std::atomic<bool> good{true};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; !stop; ++i) {
        if (!compiles_right(10000 + 5000 * t + i)) good = false;
      }
    });
  }
  for (int round = 0; round < 20; ++round) {
    usleep(3000);
    // One module that nobody has, and one that is in the parent's cache.
    EXPECT_TRUE(ended_well(start_child([round] {
      return compiles_right(-1 - round) && compiles_right(10000) && compiles_right(10000);
    })));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(good);
}

}  // namespace
}  // namespace flambeau
