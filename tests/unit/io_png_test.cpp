#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <random>
#include <vector>

#include "flambeau/base/error.h"
#include "flambeau/io/png.h"

namespace flambeau::io {
namespace {

uint32_t big_endian(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

struct Image {
  uint32_t width = 0, height = 0;
  int channels = 0;
  std::vector<uint8_t> pixels;
};

// A reader of what the writer makes, by the standard's text: chunks, then filters in reverse.
Image decode(const std::string& png) {
  Image image;
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1A\n");
  std::string compressed;
  size_t at = 8;
  std::string last;
  while (at < png.size()) {
    uint32_t size = big_endian(png, at);
    last = png.substr(at + 4, 4);
    std::string content = png.substr(at + 8, size);
    auto* checked = reinterpret_cast<const Bytef*>(png.data() + at + 4);
    EXPECT_EQ(big_endian(png, at + 8 + size), crc32_z(0, checked, size + 4));
    if (last == "IHDR") {
      image.width = big_endian(content, 0);
      image.height = big_endian(content, 4);
      EXPECT_EQ(content[8], 8);
      image.channels = content[9] == 2 ? 3 : 1;
    } else if (last == "IDAT") {
      compressed += content;
    }
    at += size + 12;
  }
  EXPECT_EQ(last, "IEND");
  size_t row = static_cast<size_t>(image.width) * image.channels;
  std::vector<uint8_t> rows((row + 1) * image.height);
  uLongf size = rows.size();
  EXPECT_EQ(uncompress(rows.data(), &size, reinterpret_cast<const Bytef*>(compressed.data()),
                       compressed.size()),
            Z_OK);
  EXPECT_EQ(size, rows.size());
  image.pixels.resize(row * image.height);
  size_t step = image.channels;
  for (size_t y = 0; y < image.height; ++y) {
    int filter = rows[y * (row + 1)];
    for (size_t x = 0; x < row; ++x) {
      uint8_t* out = &image.pixels[y * row + x];
      int a = x >= step ? out[-static_cast<ptrdiff_t>(step)] : 0;
      int b = y > 0 ? out[-static_cast<ptrdiff_t>(row)] : 0;
      int c = x >= step && y > 0 ? out[-static_cast<ptrdiff_t>(row + step)] : 0;
      int p = a + b - c, pa = std::abs(p - a), pb = std::abs(p - b), pc = std::abs(p - c);
      int nearest = pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
      int predicted[] = {0, a, b, (a + b) / 2, nearest};
      EXPECT_LT(filter, 5);
      *out = static_cast<uint8_t>(rows[y * (row + 1) + 1 + x] + predicted[filter % 5]);
    }
  }
  return image;
}

TEST(Png, RoundTrip) {
  std::mt19937 random(1);
  for (int channels : {1, 3}) {
    for (int width : {1, 2, 17, 64}) {
      for (int height : {1, 3, 33}) {
        for (bool smooth : {false, true}) {
          std::vector<uint8_t> pixels(width * height * channels);
          for (size_t i = 0; i < pixels.size(); ++i) {
            pixels[i] = static_cast<uint8_t>(smooth ? i * 3 / channels : random());
          }
          Image image = decode(encode_png(width, height, channels, pixels.data()));
          EXPECT_EQ(image.width, static_cast<uint32_t>(width));
          EXPECT_EQ(image.height, static_cast<uint32_t>(height));
          EXPECT_EQ(image.channels, channels);
          EXPECT_EQ(image.pixels, pixels);
        }
      }
    }
  }
}

TEST(Png, SmoothImagesCompress) {
  std::vector<uint8_t> pixels(256 * 256);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i % 256 + i / 256);
  EXPECT_LT(encode_png(256, 256, 1, pixels.data()).size(), 2000u);
}

TEST(Png, Errors) {
  auto message = [](int64_t width, int64_t height, int64_t channels) -> std::string {
    try {
      encode_png(width, height, channels, nullptr);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::value);
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(1, 1, 4), "png: an image has 1 channel (gray) or 3 (RGB); got 4");
  EXPECT_EQ(message(0, 5, 1), "png: width and height must be from 1 to 2147483647; got 0 and 5");
  EXPECT_EQ(message(int64_t{1} << 40, 5, 1),
            "png: width and height must be from 1 to 2147483647; got 1099511627776 and 5");
  EXPECT_EQ(message(100'000, 100'000, 1), "png: an image of 100000 x 100000 pixels is too large");
}

}  // namespace
}  // namespace flambeau::io
