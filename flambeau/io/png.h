// A writer of PNG images (W3C Recommendation, second edition): 8 bits a channel, gray or RGB.
#pragma once

#include <cstdint>
#include <string>

namespace flambeau::io {

/// The file's bytes. `pixels` has height x width x channels bytes, rows from the top; channels is 1
/// (gray) or 3 (RGB). Throws a value Error for other channels and for sizes below 1 or too large.
std::string encode_png(int64_t width, int64_t height, int64_t channels, const uint8_t* pixels);

/// Replaces the file in one step.
void write_png(const std::string& path, int64_t width, int64_t height, int64_t channels,
               const uint8_t* pixels);

}  // namespace flambeau::io
