#include "flambeau/autograd/programs.h"

#include <bit>
#include <complex>
#include <map>
#include <mutex>

#include "flambeau/base/error.h"
#include "flambeau/graph/trace.h"
#include "flambeau/prim/prim.h"
#include "flambeau/run/program.h"

namespace flambeau::autograd {

namespace {

using graph::Trace;
using run::ProgramPointer;

enum class Purpose : int64_t { fill, copy, add, zero, sum, convert, nan };

bool is_half(DType t) { return t == DType::float16 || t == DType::bfloat16; }

/// Dims of size 1 are constants of a trace, so they belong to its key.
void append_ones(std::vector<int64_t>& key, const Dims& sizes) {
  key.push_back(sizes.size());
  for (int64_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) key.push_back(d);
  }
}

/// The program of a key, traced by `body` (which adds inputs and outputs) at its first use.
template <class Body>
ProgramPointer program(const char* name, const std::vector<int64_t>& key, const Body& body) {
  static std::mutex mutex;
  static auto* programs = new std::map<std::vector<int64_t>, ProgramPointer>;
  std::lock_guard lock(mutex);
  ProgramPointer& found = (*programs)[key];
  if (!found) {
    Trace trace;
    body(trace);
    found = std::make_shared<run::Program>(name, trace.graph(), trace.input_sizes());
  }
  return found;
}

Tensor run_one(const ProgramPointer& program, const std::vector<run::Operand>& operands,
               const std::vector<int64_t>& size_arguments, bool record) {
  return record ? run::execute_recorded(program, operands, size_arguments)[0]
                : run::execute(program, operands, size_arguments)[0];
}

std::vector<int64_t> key_of(Purpose purpose, const Tensor& t) {
  std::vector<int64_t> key{static_cast<int64_t>(purpose), static_cast<int64_t>(t.dtype())};
  append_ones(key, t.sizes());
  return key;
}

Tensor filled_with(const ResultType& type, Scalar value, int64_t which) {
  std::vector<int64_t> key{static_cast<int64_t>(Purpose::fill), static_cast<int64_t>(type.dtype),
                           type.sizes.size(), which};
  auto made = program("fill", key, [&](Trace& trace) {
    Sizes sizes;
    for (int64_t s : type.sizes) sizes.push_back(trace.add_size_input(s));
    trace.add_output(prim::constant(value, type.dtype, sizes));
  });
  return run_one(made, {}, type.sizes.vector(), false);
}

ProgramPointer add_program(const Tensor& a, const Tensor& b) {
  return program("add_gradients", key_of(Purpose::add, a), [&](Trace& trace) {
    Tensor x = trace.add_tensor_input(a.dtype(), a.sizes());
    Tensor y = trace.add_tensor_input(b.dtype(), b.sizes());
    trace.add_output(prim::add_cotangents(x, y));
  });
}

Tensor converted(const Tensor& g, DType to, bool record) {
  std::vector<int64_t> key = key_of(Purpose::convert, g);
  key.push_back(static_cast<int64_t>(to));
  auto made = program("convert_gradient", key, [&](Trace& trace) {
    Tensor x = trace.add_tensor_input(g.dtype(), g.sizes());
    DType part = real_type(to);
    if (is_complex(to)) {
      Tensor re = prim::cast(is_complex(g.dtype()) ? prim::real(x) : x, part);
      Tensor im = is_complex(g.dtype()) ? prim::cast(prim::imag(x), part) : prim::zeros_like(re);
      trace.add_output(prim::make_complex(re, im));
    } else {
      trace.add_output(prim::cast(is_complex(g.dtype()) ? prim::real(x) : x, to));
    }
  });
  return run_one(made, {g}, {}, record);
}

/// Whether sizes broadcast to those of g.
bool stretches_to(const Dims& sizes, const Dims& stretched) {
  int64_t extra = stretched.size() - sizes.size();
  if (extra < 0) return false;
  for (int64_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1 && sizes[d] != stretched[d + extra]) return false;
  }
  return true;
}

Tensor summed_to(const Tensor& g, const Dims& sizes, bool record) {
  int64_t extra = g.dim() - sizes.size();
  std::vector<int64_t> key = key_of(Purpose::sum, g);
  append_ones(key, sizes);
  auto made = program("sum_gradient", key, [&](Trace& trace) {
    Tensor x = trace.add_tensor_input(g.dtype(), g.sizes());
    std::vector<int64_t> dims;
    Sizes result;
    for (int64_t d = 0; d < g.dim(); ++d) {
      bool stretched = d < extra || (sizes[d - extra] == 1 && g.size(d) != 1);
      if (stretched) dims.push_back(d);
      if (d >= extra) result.push_back(stretched ? Size(1) : graph::size_of(x, d));
    }
    Tensor terms = is_half(g.dtype()) ? prim::cast(x, DType::float32) : x;
    Tensor sum = dims.empty() ? terms : prim::reduce(terms, dims, prim::Monoid::sum);
    if (is_half(g.dtype())) sum = prim::cast(sum, g.dtype());
    trace.add_output(prim::reshape(sum, result));
  });
  return run_one(made, {g}, {}, record);
}

}  // namespace

Tensor filled(const ResultType& type, double value) {
  return filled_with(type, value, std::bit_cast<int64_t>(value));
}

Tensor ones(const ResultType& type) {
  if (!is_complex(type.dtype)) return filled(type, 1);
  return filled_with(type, std::complex<double>(1, 1), 0);
}

Tensor copied(const Tensor& t) {
  auto made = program("copy_gradient", key_of(Purpose::copy, t), [&](Trace& trace) {
    trace.add_output(prim::barrier(trace.add_tensor_input(t.dtype(), t.sizes())));
  });
  Tensor copy = empty_tensor(t.sizes(), t.dtype(), t.device());
  run::execute(made, {t}, {}, {copy});
  return copy;
}

Tensor added(const Tensor& a, const Tensor& b, bool record) {
  return run_one(add_program(a, b), {a, b}, {}, record);
}

void add_in_place(const Tensor& a, const Tensor& b) {
  run::execute(add_program(a, b), {a, b}, {}, {a});
  a.storage().raise_version();
}

Tensor zeroed_where(const Tensor& mask, const Tensor& g, bool record) {
  auto made = program("zero_region", key_of(Purpose::zero, g), [&](Trace& trace) {
    Tensor m = trace.add_tensor_input(mask.dtype(), mask.sizes());
    Tensor x = trace.add_tensor_input(g.dtype(), g.sizes());
    auto masked = [](const Tensor& where, const Tensor& value) {
      return prim::select(prim::cast(where, DType::boolean), prim::zeros_like(value), value);
    };
    trace.add_output(is_complex(g.dtype())
                         ? prim::make_complex(masked(prim::real(m), prim::real(x)),
                                              masked(prim::imag(m), prim::imag(x)))
                         : masked(m, x));
  });
  return run_one(made, {mask, g}, {}, record);
}

Tensor conform(const Tensor& g, const ResultType& type, const std::string& name, size_t index,
               bool record) {
  Tensor result = g;
  if (!(g.sizes() == type.sizes)) {
    check(stretches_to(type.sizes, g.sizes()), ErrorKind::runtime, "Function ", name,
          " returned an invalid gradient at index ", index, " - got ", g.sizes(),
          " but expected shape compatible with ", type.sizes);
    result = summed_to(g, type.sizes, record);
  }
  check(g.device().type == type.device.type, ErrorKind::runtime, "Function ", name,
        " returned an invalid gradient at index ", index, " - expected device ", type.device,
        " but got ", g.device());
  return result.dtype() == type.dtype ? result : converted(result, type.dtype, record);
}

bool has_nan(const Tensor& t) {
  if (!is_inexact(t.dtype())) return false;
  auto made = program("has_nan", key_of(Purpose::nan, t), [&](Trace& trace) {
    Tensor x = trace.add_tensor_input(t.dtype(), t.sizes());
    auto differs = [](const Tensor& part) {
      Tensor v = is_half(part.dtype()) ? prim::cast(part, DType::float32) : part;
      return prim::ne(v, v);
    };
    Tensor nan = is_complex(t.dtype())
                     ? prim::bit_or(differs(prim::real(x)), differs(prim::imag(x)))
                     : differs(x);
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < t.dim(); ++d) dims.push_back(d);
    trace.add_output(dims.empty() ? nan : prim::reduce(nan, dims, prim::Monoid::any));
  });
  return *run_one(made, {t}, {}, false).data_as<bool>();
}

Tensor add_gradients(const Tensor& a, const Tensor& b, bool create_graph) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  return added(a, b, create_graph);
}

}  // namespace flambeau::autograd
