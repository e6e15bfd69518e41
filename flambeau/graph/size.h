// Symbolic sizes. A size expression is an integer formula over the sizes of a graph's inputs; a
// program evaluates the formulas at each run, so sizes are data. Expressions are interned: equal
// formulas have equal ids.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "flambeau/base/text.h"
#include "flambeau/tensor/dims.h"

namespace flambeau::graph {

using SizeId = int32_t;

enum class SizeOp : uint8_t {
  constant,
  input,
  add,
  sub,
  mul,
  div,
  mod,
  min,
  max
};  // div rounds down

struct SizeExpression {
  SizeOp op;
  SizeId a = -1, b = -1;
  int64_t value = 0;  // of a constant; number of an input
  friend bool operator==(const SizeExpression&, const SizeExpression&) = default;
};

class SizeTable {
 public:
  SizeId constant(int64_t value) { return intern({SizeOp::constant, -1, -1, value}); }
  /// Input sizes are numbered by whoever makes the graph.
  SizeId input(int64_t number) { return intern({SizeOp::input, -1, -1, number}); }
  /// Folds constants and the identities x+0, x-0, x-x, x*1, x*0, x/1, x%1, min(x,x), max(x,x).
  SizeId binary(SizeOp op, SizeId a, SizeId b);

  const SizeExpression& operator[](SizeId id) const {
    return expressions_[static_cast<size_t>(id)];
  }
  int64_t size() const { return static_cast<int64_t>(expressions_.size()); }
  bool is_constant(SizeId id, int64_t* value = nullptr) const;
  bool is_value(SizeId id, int64_t value) const;
  /// Values of all expressions from those of the inputs; operands come before their users.
  void evaluate(const int64_t* inputs, int64_t* values) const;
  std::string print(SizeId id) const;

 private:
  SizeId intern(SizeExpression e);
  std::vector<SizeExpression> expressions_;
  std::map<std::tuple<SizeOp, SizeId, SizeId, int64_t>, SizeId> ids_;
};

int64_t apply(SizeOp op, int64_t a, int64_t b);

}  // namespace flambeau::graph

namespace flambeau {

/// A size inside an operator's body: its present value and, while tracing, its formula. Arithmetic
/// stays symbolic. A comparison answers for the present values and becomes a guard of the trace.
struct Size {
  int64_t value = 0;
  graph::SizeId id = -1;  // in the table of the current trace; -1: a constant
  Size() = default;
  Size(int64_t v) : value(v) {}
  Size(int v) : value(v) {}
  Size(int64_t v, graph::SizeId i) : value(v), id(i) {}
};
Size operator+(Size a, Size b);
Size operator-(Size a, Size b);
Size operator*(Size a, Size b);
Size operator/(Size a, Size b);  // rounds down
Size operator%(Size a, Size b);
Size min(Size a, Size b);
Size max(Size a, Size b);
bool operator==(Size a, Size b);
bool operator<(Size a, Size b);
inline bool operator!=(Size a, Size b) { return !(a == b); }
inline bool operator>(Size a, Size b) { return b < a; }
inline bool operator<=(Size a, Size b) { return !(b < a); }
inline bool operator>=(Size a, Size b) { return !(a < b); }
inline void append(std::string& out, Size s) { append(out, s.value); }

using Sizes = std::vector<Size>;
Dims values(const Sizes& sizes);

}  // namespace flambeau
