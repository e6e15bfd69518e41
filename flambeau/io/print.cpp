// One format is chosen for all elements shown: integers with a point, a fixed number of digits, or
// scientific where magnitudes differ by more than a thousand.
#include "flambeau/io/print.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <vector>

#include "flambeau/autograd/autograd.h"
#include "flambeau/base/text.h"
#include "flambeau/io/element.h"

namespace flambeau {

namespace {

std::mutex options_mutex;
PrintOptions process_options;

std::string format_real(double value, int precision, char conversion) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char pattern[] = {'%', '.', '*', conversion, '\0'};
  char buffer[400];
  int length = std::snprintf(buffer, sizeof buffer, pattern, precision, value);
  return std::string(buffer, static_cast<size_t>(length));
}

/// Format and width of real or integral values, from those that will be shown.
class Format {
 public:
  Format(const std::vector<Scalar>& values, bool real, const PrintOptions& options)
      : precision_(options.precision), real_(real) {
    if (!real_) {
      for (const Scalar& v : values) widen(text_of(v));
      return;
    }
    double low = INFINITY, high = 0;
    for (const Scalar& v : values) {
      double magnitude = std::abs(v.real());
      if (magnitude == 0 || !std::isfinite(magnitude)) continue;
      low = std::min(low, magnitude);
      high = std::max(high, magnitude);
      integral_ = integral_ && magnitude == std::floor(magnitude);
    }
    if (high == 0) return;
    scientific_ = high / low > 1000 || high > 1e8 || (!integral_ && low < 1e-4);
    for (const Scalar& v : values) {
      if (v.real() != 0 && std::isfinite(v.real())) widen(text_of(v));
    }
    if (options.scientific) scientific_ = *options.scientific;
  }

  size_t width() const { return width_; }
  std::string operator()(const Scalar& value) const {
    std::string s = text_of(value);
    return s.size() < width_ ? std::string(width_ - s.size(), ' ') + s : s;
  }

 private:
  std::string text_of(const Scalar& value) const {
    if (!real_) {
      if (value.kind() == Scalar::Kind::boolean) return value.boolean() ? "True" : "False";
      return text(value.integer());
    }
    if (scientific_) return format_real(value.real(), precision_, 'e');
    if (!integral_) return format_real(value.real(), precision_, 'f');
    std::string s = format_real(value.real(), 0, 'f');
    if (std::isfinite(value.real())) s.push_back('.');
    return s;
  }
  void widen(const std::string& s) { width_ = std::max(width_, s.size()); }

  int precision_;
  bool real_;
  bool integral_ = true;
  bool scientific_ = false;
  size_t width_ = 1;
};

class Printer {
 public:
  Printer(const Tensor& t, const PrintOptions& options)
      : t_(t), data_(t.data()), options_(options), summarize_(t.numel() > options.threshold) {
    std::vector<Scalar> shown, imaginary;
    collect(0, 0, [&](const Scalar& v) {
      shown.push_back(is_complex(t.dtype()) ? Scalar(v.real()) : v);
      if (is_complex(t.dtype())) imaginary.push_back(Scalar(v.imag()));
    });
    formats_.emplace_back(shown, is_inexact(t.dtype()), options);
    if (is_complex(t.dtype())) formats_.emplace_back(imaginary, true, options);
  }

  std::string block(int64_t dim, int64_t offset, int64_t indent) const {
    if (dim == t_.dim()) return element(offset);
    if (dim == t_.dim() - 1) return line(dim, offset, indent);
    std::string separator = "," + std::string(static_cast<size_t>(t_.dim() - dim - 1), '\n') +
                            std::string(static_cast<size_t>(indent + 1), ' ');
    std::string out = "[";
    for (int64_t i : shown_indices(dim)) {
      if (out.size() > 1) out += separator;
      out += i < 0 ? "..." : block(dim + 1, offset + i * t_.stride(dim), indent + 1);
    }
    return out + "]";
  }

 private:
  Scalar value(int64_t offset) const {
    return load_element(data_ + offset * itemsize(t_.dtype()), t_.dtype());
  }

  /// Indices along a dim; -1 stands for those left out.
  std::vector<int64_t> shown_indices(int64_t dim) const {
    std::vector<int64_t> indices;
    int64_t n = t_.size(dim), edge = options_.edge_items;
    bool cut = summarize_ && n > 2 * edge;
    for (int64_t i = 0; i < n; ++i) {
      if (cut && i == edge) {
        indices.push_back(-1);
        i = n - edge;
        if (i == n) break;
      }
      indices.push_back(i);
    }
    return indices;
  }

  template <class F>
  void collect(int64_t dim, int64_t offset, const F& visit) const {
    if (dim == t_.dim()) return visit(value(offset));
    for (int64_t i : shown_indices(dim)) {
      if (i >= 0) collect(dim + 1, offset + i * t_.stride(dim), visit);
    }
  }

  std::string element(int64_t offset) const {
    Scalar v = value(offset);
    if (formats_.size() == 1) return formats_[0](v);
    std::string imaginary = formats_[1](Scalar(v.imag())) + "j";
    imaginary.erase(0, imaginary.find_first_not_of(' '));
    bool sign = imaginary[0] == '-' || imaginary[0] == '+';
    return formats_[0](Scalar(v.real())) + (sign ? "" : "+") + imaginary;
  }

  std::string line(int64_t dim, int64_t offset, int64_t indent) const {
    int64_t width = static_cast<int64_t>(formats_[0].width()) + 2;
    if (formats_.size() > 1) width += static_cast<int64_t>(formats_[1].width()) + 1;
    int64_t per_line = std::max<int64_t>(1, (options_.line_width - indent) / width);
    std::string out = "[";
    int64_t count = 0;
    for (int64_t i : shown_indices(dim)) {
      if (count)
        out += count % per_line ? ", " : ",\n" + std::string(static_cast<size_t>(indent + 1), ' ');
      out += i < 0 ? " ..." : element(offset + i * t_.stride(dim));
      ++count;
    }
    return out + "]";
  }

  const Tensor& t_;
  const char* data_;
  const PrintOptions& options_;
  bool summarize_;
  std::vector<Format> formats_;
};

std::vector<std::string> suffixes_of(const Tensor& t) {
  std::vector<std::string> suffixes;
  DType dtype = t.dtype(), usual = default_dtype();
  if (t.device().type != DeviceType::cpu) suffixes.push_back(text("device='", t.device(), "'"));
  bool plain = dtype == usual;
  if (t.numel() == 0) {
    if (t.dim() != 1) {
      std::string size = text(t.sizes());
      size.front() = '(';
      size.back() = ')';
      suffixes.push_back("size=" + size);
    }
  } else {
    plain =
        plain || dtype == DType::int64 || dtype == DType::boolean || dtype == complex_type(usual);
  }
  if (!plain) suffixes.push_back(text("dtype=torch.", dtype));
  if (auto node = autograd::grad_fn(t)) {
    suffixes.push_back("grad_fn=<" + node->name() + ">");
  } else if (t.requires_grad()) {
    suffixes.push_back("requires_grad=True");
  }
  return suffixes;
}

}  // namespace

PrintOptions print_options() {
  std::lock_guard lock(options_mutex);
  return process_options;
}

void set_print_options(const PrintOptions& options) {
  std::lock_guard lock(options_mutex);
  process_options = options;
}

std::string to_string(const Tensor& t, const PrintOptions& options) {
  static constexpr std::string_view kPrefix = "tensor(";
  constexpr int64_t indent = static_cast<int64_t>(kPrefix.size());
  std::string out(kPrefix);
  out += t.numel() == 0 ? "[]" : Printer(t, options).block(0, 0, indent);
  size_t last = out.rfind('\n');
  int64_t length =
      static_cast<int64_t>(last == std::string::npos ? out.size() + 2 : out.size() - last + 1);
  for (const std::string& suffix : suffixes_of(t)) {
    int64_t size = static_cast<int64_t>(suffix.size());
    if (length + size + 2 > options.line_width) {
      out += ",\n" + std::string(indent, ' ') + suffix;
      length = indent + size;
    } else {
      out += ", " + suffix;
      length += size + 2;
    }
  }
  return out + ")";
}

std::string to_string(const Tensor& t) { return to_string(t, print_options()); }

}  // namespace flambeau
