#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>

#include "flambeau/base/error.h"
#include "flambeau/io/npy.h"

namespace flambeau::io {
namespace {

std::string file_of(const std::string& dict, const std::string& data, int version = 1) {
  std::string out = "\x93NUMPY";
  out += {static_cast<char>(version), '\0'};
  uint32_t size = static_cast<uint32_t>(dict.size());
  out.append(reinterpret_cast<char*>(&size), version == 1 ? 2 : 4);
  return out + dict + data;
}

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

std::string parse_message(const std::string& content) {
  return message_of([&] {
    auto exact = std::make_unique<char[]>(content.size());
    std::memcpy(exact.get(), content.data(), content.size());
    parse_npy({exact.get(), content.size()}, "f");
  });
}

TEST(Npy, Versions) {
  for (int version : {1, 2, 3}) {
    std::string file = file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n",
                               std::string(24, 'x'), version);
    NpyHeader header = parse_npy(file, "f");
    EXPECT_EQ(header.dtype, "float32");
    EXPECT_EQ(header.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(header.bytes, 24u);
    EXPECT_EQ(header.offset + 24, file.size());
  }
}

TEST(Npy, HeaderForms) {
  auto shape = [](const std::string& tuple) {
    return parse_npy(file_of("{\"shape\":" + tuple + ",'descr':'|b1','fortran_order':True}", "xxx"),
                     "f")
        .shape;
  };
  EXPECT_EQ(shape("()"), std::vector<int64_t>{});
  EXPECT_EQ(shape("(3,)"), std::vector<int64_t>{3});
  EXPECT_EQ(shape("( 3L , 1L)"), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(shape("(9223372036854775807, 9223372036854775807, 0)"),
            (std::vector<int64_t>{INT64_MAX, INT64_MAX, 0}));
}

TEST(Npy, Types) {
  auto dtype = [](const std::string& descr) {
    return parse_npy(file_of("{'descr': '" + descr + "', 'fortran_order': False, 'shape': (1,)}",
                             std::string(16, 'x')),
                     "f")
        .dtype;
  };
  EXPECT_EQ(dtype("|b1"), "bool");
  EXPECT_EQ(dtype("|u1"), "uint8");
  EXPECT_EQ(dtype("<i8"), "int64");
  EXPECT_EQ(dtype(">f2"), "float16");
  EXPECT_EQ(dtype("=f8"), "float64");
  EXPECT_EQ(dtype("<c8"), "complex64");
  EXPECT_EQ(dtype("<c16"), "complex128");
}

TEST(Npy, ByteAndDimOrder) {
  std::string data;
  for (uint16_t value : {1, 4, 2, 5, 3, 6}) data += {'\0', static_cast<char>(value)};
  std::string file = file_of("{'descr': '>u2', 'fortran_order': True, 'shape': (2, 3)}", data);
  NpyHeader header = parse_npy(file, "f");
  std::vector<uint16_t> out(6);
  copy_npy_elements(header, file, out.data());
  EXPECT_EQ(out, (std::vector<uint16_t>{1, 2, 3, 4, 5, 6}));
  // Halves of complex numbers are swapped each for itself.
  float expected[] = {1.5f, -2.0f};
  std::string parts;
  for (float part : expected) {
    char bytes[4];
    std::memcpy(bytes, &part, 4);
    parts += {bytes[3], bytes[2], bytes[1], bytes[0]};
  }
  file = file_of("{'descr': '>c8', 'fortran_order': False, 'shape': ()}", parts);
  float got[2];
  copy_npy_elements(parse_npy(file, "f"), file, got);
  EXPECT_EQ(std::memcmp(got, expected, 8), 0);
}

TEST(Npy, FortranOrderOfHigherRanks) {
  std::string data(24, '\0');
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 4; ++k) data[i + 2 * j + 6 * k] = static_cast<char>(i * 12 + j * 4 + k);
    }
  }
  std::string file = file_of("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4)}", data);
  std::vector<uint8_t> out(24);
  copy_npy_elements(parse_npy(file, "f"), file, out.data());
  for (int i = 0; i < 24; ++i) EXPECT_EQ(out[i], i);
}

TEST(Npy, DamagedFiles) {
  EXPECT_EQ(parse_message(""), "'f' is no npy file: it does not begin with the format's mark");
  EXPECT_EQ(parse_message("\x93NUMPZ\x01\x01    "),
            "'f' is no npy file: it does not begin with the format's mark");
  EXPECT_EQ(parse_message(file_of("", "", 4)),
            "'f': npy version 4.0 is unknown; known are 1.0, 2.0 and 3.0");
  EXPECT_EQ(parse_message(file_of("", "", 1).substr(0, 8) + "\xff\xff"),
            "'f': the npy header has 65535 bytes, but only 0 follow: the file is truncated");
  EXPECT_EQ(parse_message(file_of("", "", 2).substr(0, 8) + "\xff\xff\xff\xff"),
            "'f': the npy header gives itself 4294967295 bytes; at most 1048576 are allowed");
  EXPECT_EQ(parse_message(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
                                  std::string(23, 'x'))),
            "'f': shape [2, 3] of float32 needs more than the 23 bytes that follow the npy header: "
            "the file is truncated");
  EXPECT_NE(parse_message(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, "
                                  "4294967296)}",
                                  ""))
                .find("needs more than the 0 bytes"),
            std::string::npos);
}

TEST(Npy, DamagedHeaders) {
  auto header = [](const std::string& dict) {
    std::string message = parse_message(file_of(dict, std::string(100, 'x')));
    std::string start = "'f': npy header: ";
    EXPECT_EQ(message.substr(0, start.size()), start);
    return message.substr(std::min(start.size(), message.size()));
  };
  auto with = [&](const std::string& descr, const std::string& order, const std::string& shape) {
    return header("{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape +
                  "}");
  };
  EXPECT_EQ(header(""), "a dict is expected");
  EXPECT_EQ(header("{}"), "the key descr is missing");
  EXPECT_EQ(header("{'a': 1}"), "unknown key 'a'; known are descr, fortran_order and shape");
  EXPECT_EQ(header("{'shape': (), 'shape': ()}"), "the key shape occurs more than once");
  EXPECT_EQ(header("{'shape"), "a string has no end");
  EXPECT_EQ(header("{'sh\\x61pe': ()}"), "a string has an escape sequence");
  EXPECT_EQ(header("{'shape' ()}"), "':' is expected after 'shape'");
  EXPECT_EQ(header("{'shape': () 'descr': '<f4'}"), "',' or '}' is expected");
  EXPECT_EQ(header("{'shape': (), 'descr': '<f4', 'fortran_order': False} + {}"),
            "something follows the dict");
  EXPECT_EQ(with("'<f4'", "0", "()"), "fortran_order must be True or False");
  EXPECT_EQ(with("'<f4'", "True", "(3)"), "shape must be a tuple");
  EXPECT_EQ(with("'<f4'", "True", "3"), "shape must be a tuple");
  EXPECT_EQ(with("'<f4'", "True", "(-3,)"),
            "shape must be a tuple of integers that are not negative");
  EXPECT_EQ(with("'<f4'", "True", "(__import__('os'),)"),
            "shape must be a tuple of integers that are not negative");
  EXPECT_EQ(with("'<f4'", "True", "(9223372036854775808,)"), "a size in shape is too large");
  std::string many;
  for (int i = 0; i < 65; ++i) many += "1,";
  EXPECT_EQ(with("'<f4'", "True", "(" + many + ")"), "shape has more than 64 dims");
  EXPECT_EQ(with("'|O'", "False", "(1,)"),
            "the array holds Python objects, which would have to be unpickled; convert it to a "
            "number type before saving");
  for (const char* descr : {"'<V2'", "'|V2'"}) {
    EXPECT_EQ(with(descr, "False", "(1,)"),
              "NumPy has no bfloat16 of its own and stores only its raw bytes; save the array as "
              "float32, or in a safetensors file");
  }
  EXPECT_EQ(with("[('x', '<f4')]", "False", "(1,)"),
            "arrays with fields are not supported; save each field as an array of its own");
  for (const char* descr : {"<U5", "|S3", "<M8[ns]", "f4", "", "<", "<f16", "xf4"}) {
    EXPECT_EQ(with(text("'", descr, "'"), "False", "(1,)"),
              text("unknown dtype '", descr,
                   "'; known are bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
                   "float16, float32, float64, complex64, complex128"));
  }
  EXPECT_EQ(with("'|f4'", "False", "(1,)"), "the dtype '|f4' does not say its byte order");
}

class NpyFiles : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/flambeau_npy_XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/x";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string npz_message(const std::string& content) {
    write_file_atomically(path_, content);
    return message_of([&] {
      NpzFile file(path_);
      for (const std::string& name : file.names()) {
        std::unique_ptr<char[]> storage;
        std::string_view npy = file.read(name, storage);
        NpyHeader header = parse_npy(npy, name);
        std::vector<char> out(header.bytes);
        copy_npy_elements(header, npy, out.data());
      }
    });
  }

  std::string folder_, path_;
};

const float kFloats[] = {0, 1, 2, 3, 4, 5};
const uint8_t kTruth[] = {1};

std::vector<NpyArray> two_arrays() {
  return {{"a", "float32", {2, 3}, kFloats, 24}, {"b", "bool", {}, kTruth, 1}};
}

void expect_two_arrays(const std::string& path) {
  NpzFile file(path);
  ASSERT_EQ(file.names(), (std::vector<std::string>{"a", "b"}));
  std::unique_ptr<char[]> storage;
  std::string_view npy = file.read("a", storage);
  NpyHeader header = parse_npy(npy, "a");
  EXPECT_EQ(header.dtype, "float32");
  EXPECT_EQ(header.shape, (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(header.bytes, 24u);
  float out[6];
  copy_npy_elements(header, npy, out);
  EXPECT_EQ(std::memcmp(out, kFloats, 24), 0);
  npy = file.read("b", storage);
  header = parse_npy(npy, "b");
  EXPECT_EQ(header.dtype, "bool");
  EXPECT_EQ(header.shape, std::vector<int64_t>{});
  EXPECT_EQ(npy[header.offset], 1);
  EXPECT_NE(message_of([&] { file.read("c", storage); }, ErrorKind::index)
                .find("has no array 'c'; it has 'a', 'b'"),
            std::string::npos);
}

TEST_F(NpyFiles, WriteAndRead) {
  write_npy(path_, two_arrays()[0]);
  std::string file = read_file(path_);
  EXPECT_EQ(file.size(), 128u + 24u);
  EXPECT_EQ(file.substr(10, 59), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
  NpyHeader header = parse_npy(file, path_);
  EXPECT_EQ(header.offset, 128u);
  EXPECT_EQ(std::memcmp(file.data() + 128, kFloats, 24), 0);
  write_npy(path_, {"", "int64", {0}, nullptr, 0});
  EXPECT_EQ(parse_npy(read_file(path_), path_).shape, std::vector<int64_t>{0});
}

TEST_F(NpyFiles, WhatCannotBeWritten) {
  auto message = [&](const NpyArray& array) {
    return message_of([&] { write_npy(path_, array); }, ErrorKind::value);
  };
  EXPECT_EQ(message({"", "bfloat16", {0}, nullptr, 0}),
            "npy files have no bfloat16; convert the array to float32, or use a safetensors file");
  EXPECT_EQ(message({"", "qint8", {0}, nullptr, 0}),
            "npy files have no dtype 'qint8'; known are bool, int8, int16, int32, int64, uint8, "
            "uint16, uint32, uint64, float16, float32, float64, complex64, complex128");
  EXPECT_EQ(message({"", "int8", {3}, nullptr, 2}), "npy: 2 bytes do not fit shape [3] of int8");
  EXPECT_EQ(message_of([&] { write_npz(path_, {two_arrays()[0], two_arrays()[0]}, false); },
                       ErrorKind::value),
            "npz: the name 'a' is given more than once");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(NpyFiles, ArchivesStoredAndDeflated) {
  for (bool compressed : {false, true}) {
    write_npz(path_, two_arrays(), compressed);
    expect_two_arrays(path_);
  }
  write_npz(path_, {}, true);
  EXPECT_TRUE(NpzFile(path_).names().empty());
}

TEST_F(NpyFiles, LargeMembersCompress) {
  std::vector<int32_t> values(1'000'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i / 100);
  NpyArray array{"big", "int32", {1000, 1000}, values.data(), values.size() * 4};
  write_npz(path_, {array}, true);
  EXPECT_LT(std::filesystem::file_size(path_), 200'000u);
  NpzFile file(path_);
  std::unique_ptr<char[]> storage;
  std::string_view npy = file.read("big", storage);
  NpyHeader header = parse_npy(npy, "big");
  EXPECT_EQ(std::memcmp(npy.data() + header.offset, values.data(), header.bytes), 0);
}

std::string from_hex(std::string_view digits) {
  std::string out;
  for (size_t i = 0; i < digits.size(); i += 2) {
    out += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  }
  return out;
}

// numpy.savez_compressed(file, a=arange(6, dtype='<f4').reshape(2, 3), b=array(True)) of NumPy 2.
// Its local records have zip64 fields.
TEST_F(NpyFiles, ArchiveWrittenByNumPy) {
  write_file_atomically(
      path_,
      from_hex("504b03042d0000000800000021004fe9002affffffffffffffff05001400612e6e70790100100098"
               "0000000000000055000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2"
               "aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a463a0ac69a3a0ab5"
               "0a64032e063068b007120e4004c40d40bcc00100504b03042d000000080000002100822df8d3ffff"
               "ffffffffffff05001400622e6e707901001000810000000000000043000000000000009bec17ea1b"
               "10c9c850c650ad9e925a9c5ca46ea5a05e9364a8aea3a09e965f54529498179f5f94920a12774bcc"
               "294e058a17672416a402f91a9a3a0ab50a14012e4600504b01022d032d0000000800000021004fe9"
               "002a5500000098000000050000000000000000000000800100000000612e6e7079504b01022d032d"
               "000000080000002100822df8d3430000008100000005000000000000000000000080018c00000062"
               "2e6e7079504b0506000000000200020066000000060100000000"));
  expect_two_arrays(path_);
}

TEST_F(NpyFiles, DamagedArchives) {
  EXPECT_NE(npz_message("").find("zip archive: too short: 0 bytes"), std::string::npos);
  EXPECT_NE(npz_message(std::string(100, 'x')).find("the directory is missing"), std::string::npos);
  write_npz(path_, two_arrays(), false);
  std::string stored = read_file(path_);
  EXPECT_NE(npz_message(stored.substr(0, stored.size() - 1)).find("the directory is missing"),
            std::string::npos);
  std::string damaged = stored;
  damaged[stored.find("NUMPY") + 140]++;
  EXPECT_NE(npz_message(damaged).find("member 'a.npy': the checksum does not match"),
            std::string::npos);
  size_t record = stored.find("PK\x01\x02");
  auto with = [&](size_t at, char value) {
    std::string content = stored;
    content[record + at] = value;
    return npz_message(content);
  };
  EXPECT_NE(with(8, 1).find("member 'a.npy': it is encrypted"), std::string::npos);
  EXPECT_NE(with(10, 12).find("member 'a.npy': unknown compression method 12"), std::string::npos);
  EXPECT_NE(with(42, 1).find("member 'a.npy': no member begins at 1"), std::string::npos);
  EXPECT_NE(with(23, 1).find("do not lie before the directory"), std::string::npos);
  EXPECT_NE(with(24, 1).find("stored, but its sizes are"), std::string::npos);
  EXPECT_NE(with(46, 'b').find("member 'b.npy': the name occurs more than once"),
            std::string::npos);
  EXPECT_NE(with(48, 'x').find("member 'a.xpy' of the npz file is no .npy file"),
            std::string::npos);
  // Both records name the first member.
  std::string overlapping = stored;
  size_t second = stored.find("PK\x01\x02", record + 4);
  for (size_t i = 16; i < 28; ++i) overlapping[second + i] = stored[record + i];
  for (size_t i = 42; i < 46; ++i) overlapping[second + i] = stored[record + i];
  EXPECT_NE(npz_message(overlapping).find("overlap"), std::string::npos);
}

TEST_F(NpyFiles, ClaimsThatDeflateCannotHold) {
  write_npz(path_, two_arrays(), true);
  std::string content = read_file(path_);
  size_t record = content.find("PK\x01\x02");
  content[record + 27] = 0x70;  // about 1.9 GB
  EXPECT_NE(npz_message(content).find("compressed bytes cannot hold"), std::string::npos);
  write_npz(path_, two_arrays(), true);
  content = read_file(path_);
  content[record + 24]++;
  EXPECT_NE(npz_message(content).find("damaged or has another size"), std::string::npos);
}

TEST(NpyMutations, Headers) {
  std::string valid = file_of("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 1), }    \n",
                              std::string(24, 'd'));
  std::mt19937 random(3);
  int errors = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string content = valid;
    for (int flips = 1 + random() % 3; flips > 0; --flips) {
      char& byte = content[random() % content.size()];
      if (random() % 2)
        byte ^= 1 << random() % 8;
      else
        byte = "0123456789'{}(),:<>|L TF"[random() % 24];
    }
    if (random() % 8 == 0) content.resize(random() % content.size());
    auto exact = std::make_unique<char[]>(content.size());
    std::memcpy(exact.get(), content.data(), content.size());
    try {
      NpyHeader header = parse_npy({exact.get(), content.size()}, "f");
      auto out = std::make_unique<char[]>(header.bytes);
      copy_npy_elements(header, {exact.get(), content.size()}, out.get());
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, 5'000);
}

TEST_F(NpyFiles, MutationsOfArchives) {
  for (bool compressed : {false, true}) {
    write_npz(path_, two_arrays(), compressed);
    std::string valid = read_file(path_);
    std::mt19937 random(5);
    int errors = 0;
    for (int i = 0; i < 20'000; ++i) {
      std::string content = valid;
      for (int flips = 1 + random() % 3; flips > 0; --flips) {
        char& byte = content[random() % content.size()];
        if (random() % 2)
          byte ^= 1 << random() % 8;
        else
          byte = static_cast<char>(random());
      }
      if (random() % 8 == 0) content.erase(random() % content.size(), 1 + random() % 20);
      auto exact = std::make_unique<char[]>(content.size());
      std::memcpy(exact.get(), content.data(), content.size());
      std::string_view file(exact.get(), content.size());
      try {
        for (const ZipEntry& entry : parse_zip(file, "f")) {
          std::unique_ptr<char[]> storage;
          std::string_view npy = read_zip_entry(file, entry, "f", storage);
          NpyHeader header = parse_npy(npy, entry.name);
          auto out = std::make_unique<char[]>(header.bytes);
          copy_npy_elements(header, npy, out.get());
        }
      } catch (const Error&) {
        ++errors;
      }
    }
    EXPECT_GT(errors, 10'000);
  }
}

}  // namespace
}  // namespace flambeau::io
