#include "flambeau/io/png.h"

#include <zlib.h>

#include <cstdlib>
#include <limits>
#include <new>
#include <string_view>
#include <vector>

#include "flambeau/base/error.h"
#include "flambeau/base/files.h"

namespace flambeau::io {

namespace {

constexpr int64_t kLargestSize = std::numeric_limits<int32_t>::max();  // the format's limit
constexpr int kFilters = 5;

void append_big_endian(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

void append_chunk(std::string& out, std::string_view type, std::string_view content) {
  append_big_endian(out, static_cast<uint32_t>(content.size()));
  size_t begin = out.size();
  out += type;
  out += content;
  auto* checked = reinterpret_cast<const Bytef*>(out.data() + begin);
  append_big_endian(out, static_cast<uint32_t>(crc32_z(0, checked, out.size() - begin)));
}

// Of left, above and above left the one nearest to left + above - above left (section 9.4).
int paeth(int left, int above, int corner) {
  int estimate = left + above - corner;
  int to_left = std::abs(estimate - left), to_above = std::abs(estimate - above),
      to_corner = std::abs(estimate - corner);
  if (to_left <= to_above && to_left <= to_corner) return left;
  return to_above <= to_corner ? above : corner;
}

int prediction(int filter, int left, int above, int corner) {
  switch (filter) {
    case 1:
      return left;
    case 2:
      return above;
    case 3:
      return (left + above) / 2;
    case 4:
      return paeth(left, above, corner);
    default:
      return 0;
  }
}

// Differences from a prediction compress better than pixels. Of the five filters the one with the
// smallest sum of absolute differences is taken, which section 12.8 recommends.
void append_filtered_row(std::string& out, const uint8_t* row, const uint8_t* above_row,
                         size_t bytes, size_t channels) {
  std::string best, candidate(bytes + 1, '\0');
  uint64_t best_sum = std::numeric_limits<uint64_t>::max();
  for (int filter = 0; filter < kFilters; ++filter) {
    candidate[0] = static_cast<char>(filter);
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; ++i) {
      int left = i >= channels ? row[i - channels] : 0;
      int above = above_row != nullptr ? above_row[i] : 0;
      int corner = i >= channels && above_row != nullptr ? above_row[i - channels] : 0;
      auto difference = static_cast<int8_t>(row[i] - prediction(filter, left, above, corner));
      candidate[i + 1] = static_cast<char>(difference);
      sum += static_cast<uint64_t>(std::abs(static_cast<int>(difference)));
    }
    if (sum < best_sum) {
      best_sum = sum;
      best = candidate;
    }
  }
  out += best;
}

}  // namespace

std::string encode_png(int64_t width, int64_t height, int64_t channels, const uint8_t* pixels) {
  check(channels == 1 || channels == 3, ErrorKind::value,
        "png: an image has 1 channel (gray) or 3 (RGB); got ", channels);
  check(width >= 1 && width <= kLargestSize && height >= 1 && height <= kLargestSize,
        ErrorKind::value, "png: width and height must be from 1 to ", kLargestSize, "; got ", width,
        " and ", height);
  auto check_fits = [&](bool fits) {
    check(fits, ErrorKind::value, "png: an image of ", width, " x ", height,
          " pixels is too large");
  };
  check_fits(width * channels < kLargestSize / height);
  size_t row_bytes = static_cast<size_t>(width * channels);
  std::string rows;
  rows.reserve((row_bytes + 1) * static_cast<size_t>(height));
  for (int64_t y = 0; y < height; ++y) {
    const uint8_t* row = pixels + static_cast<size_t>(y) * row_bytes;
    append_filtered_row(rows, row, y > 0 ? row - row_bytes : nullptr, row_bytes,
                        static_cast<size_t>(channels));
  }
  uLongf size = compressBound(rows.size());
  std::string compressed(size, '\0');
  int code =
      compress2(reinterpret_cast<Bytef*>(compressed.data()), &size,
                reinterpret_cast<const Bytef*>(rows.data()), rows.size(), Z_DEFAULT_COMPRESSION);
  if (code != Z_OK) throw std::bad_alloc();  // the output is large enough: memory is all it lacks
  check_fits(size <= static_cast<uLongf>(kLargestSize));
  compressed.resize(size);

  std::string header;
  append_big_endian(header, static_cast<uint32_t>(width));
  append_big_endian(header, static_cast<uint32_t>(height));
  header += {'\x08', channels == 3 ? '\x02' : '\x00', '\x00', '\x00', '\x00'};
  std::string out = "\x89PNG\r\n\x1A\n";
  append_chunk(out, "IHDR", header);
  append_chunk(out, "IDAT", compressed);
  append_chunk(out, "IEND", {});
  return out;
}

void write_png(const std::string& path, int64_t width, int64_t height, int64_t channels,
               const uint8_t* pixels) {
  write_file_atomically(path, encode_png(width, height, channels, pixels));
}

}  // namespace flambeau::io
