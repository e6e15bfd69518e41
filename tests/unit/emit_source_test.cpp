// Printed C++ against machine code and scalar C++: each compiler of the system must give the same
// bits.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "loop_flow_samples.h"
#include "loop_samples.h"

namespace flambeau {
namespace {

using samples::Sample;

class EmitSource : public testing::TestWithParam<const char*> {};

TEST_P(EmitSource, SameBits) {
  const std::string compiler = GetParam();
  if (std::system((compiler + " --version > /dev/null 2>&1").c_str()) != 0) {
    GTEST_SKIP() << compiler << " is not installed";
  }
  std::vector<Sample> all;
  for (int lanes : {1, 4, 16}) {
    for (const samples::Case& c : samples::all_cases()) all.push_back(samples::make(c, lanes));
    for (Sample& sample : samples::flow_samples(lanes)) all.push_back(std::move(sample));
  }
  loop::Module module;
  for (const Sample& sample : all) module.functions.push_back(sample.function);

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / text("flambeau_source_", compiler, "_", getpid());
  std::filesystem::create_directories(folder);
  const std::string source = folder / "kernels.cpp";
  const std::string library = folder / "kernels.so";
  std::ofstream(source) << emit::print_source(module);
  const std::string command =
      text(compiler, " -std=c++20 -O1 -ffp-contract=off -march=x86-64-v3 -shared -fPIC -w ", source,
           " -o ", library, " -lm");
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  for (const Sample& sample : all) {
    auto entry = reinterpret_cast<emit::Entry>(dlsym(handle, sample.name.c_str()));
    ASSERT_NE(entry, nullptr) << sample.name;
    EXPECT_EQ(samples::difference(sample, samples::run(sample, entry)), "");
  }
  dlclose(handle);
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Compilers, EmitSource, testing::Values("g++", "clang++-19"),
                         [](const auto& info) {
                           return std::string(info.param).substr(0, info.param[0] == 'g' ? 1 : 5);
                         });

}  // namespace
}  // namespace flambeau
