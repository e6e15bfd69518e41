// Tensors as text, laid out as the field's users know it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "flambeau/tensor/tensor.h"

namespace flambeau {

struct PrintOptions {
  int precision = 4;         // digits after the point
  int64_t threshold = 1000;  // with more elements only the edges are shown
  int64_t edge_items = 3;
  int64_t line_width = 80;
  std::optional<bool> scientific;  // by the values when not set
};

/// Options of the process. Thread-safe.
PrintOptions print_options();
void set_print_options(const PrintOptions& options);

/// "tensor([1., 2.], dtype=torch.float64, requires_grad=True)"
std::string to_string(const Tensor& t);
std::string to_string(const Tensor& t, const PrintOptions& options);

}  // namespace flambeau
