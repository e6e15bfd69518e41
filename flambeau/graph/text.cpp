// The text form of a graph, one item a line, in the order of their numbers:
//
//   size z0 = 1                        a constant
//   size z1 = input 0                  size number 0 of the inputs, from the source given below
//   size z2 = z0 * z1                  + - * / % min max
//   source 0 = input 0 dim 1           or: source 0 = argument 3
//   guard z1 < z2 is false             or ==
//   require z1 == z2 message to the end of the line
//   v0 = input 0 float32 [z1 z2]
//   v1 = number 1 float64 []
//   v2 float32 [z1] = reduce(v0) ints=[0 1] sizes=[z1] dtype=float32
//   output v2
#include <array>
#include <charconv>
#include <optional>

#include "flambeau/base/error.h"
#include "flambeau/graph/primitive.h"

namespace flambeau::graph {

namespace {

struct Symbol {
  SizeOp op;
  std::string_view text;
};
constexpr std::array<Symbol, 7> kSymbols{{{SizeOp::add, "+"},
                                          {SizeOp::sub, "-"},
                                          {SizeOp::mul, "*"},
                                          {SizeOp::div, "/"},
                                          {SizeOp::mod, "%"},
                                          {SizeOp::min, "min"},
                                          {SizeOp::max, "max"}}};

template <class List>
std::string listed(const List& items, const char* prefix) {
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i)
    append(out, text(i ? " " : "", prefix, static_cast<int64_t>(items[i])));
  return out + "]";
}

std::string size_line(const SizeExpression& e) {
  if (e.op == SizeOp::constant) return text(e.value);
  if (e.op == SizeOp::input) return text("input ", e.value);
  for (const Symbol& s : kSymbols) {
    if (s.op == e.op)
      return text("z", static_cast<int64_t>(e.a), " ", s.text, " z", static_cast<int64_t>(e.b));
  }
  return {};
}

std::string node_line(const Graph& g, const Node& n) {
  std::string out;
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    const Value& v = g.value(n.outputs[i]);
    out += text(i ? ", v" : "v", static_cast<int64_t>(n.outputs[i]), " ", v.dtype, " ",
                listed(v.shape, "z"));
  }
  out += text(" = ", n.primitive->name, "(");
  for (size_t i = 0; i < n.inputs.size(); ++i)
    out += text(i ? ", v" : "v", static_cast<int64_t>(n.inputs[i]));
  out += ")";
  if (!n.attributes.ints.empty()) out += " ints=" + listed(n.attributes.ints, "");
  if (!n.attributes.sizes.empty()) out += " sizes=" + listed(n.attributes.sizes, "z");
  if (n.attributes.dtype != Attributes().dtype) out += text(" dtype=", n.attributes.dtype);
  return out;
}

class Parser {
 public:
  explicit Parser(std::string_view all) : all_(all) {}

  Graph run() {
    for (size_t start = 0; start < all_.size();) {
      size_t end = std::min(all_.find('\n', start), all_.size());
      line_ = all_.substr(start, end - start);
      at_ = 0;
      ++number_;
      skip();
      if (at_ < line_.size()) parse_line();
      start = end + 1;
    }
    return std::move(g_);
  }

 private:
  [[noreturn]] void wrong(std::string_view expected) const {
    fail(ErrorKind::runtime, text("graph text, line ", number_, ": expected ", expected, " at '",
                                  line_.substr(std::min(at_, line_.size())), "'"));
  }
  void skip() {
    while (at_ < line_.size() && line_[at_] == ' ') ++at_;
  }
  bool accept(std::string_view token) {
    skip();
    if (line_.substr(std::min(at_, line_.size()), token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) wrong(text("'", token, "'"));
  }
  int64_t integer() {
    skip();
    int64_t value = 0;
    auto [end, code] = std::from_chars(line_.data() + at_, line_.data() + line_.size(), value);
    if (code != std::errc()) wrong("an integer");
    at_ = static_cast<size_t>(end - line_.data());
    return value;
  }
  std::string_view word() {
    skip();
    size_t start = at_;
    while (at_ < line_.size() &&
           (std::isalnum(static_cast<unsigned char>(line_[at_])) || line_[at_] == '_'))
      ++at_;
    if (start == at_) wrong("a name");
    return line_.substr(start, at_ - start);
  }
  SizeId size_id() {
    expect("z");
    int64_t id = integer();
    if (id < 0 || id >= g_.sizes.size()) wrong("a size that is defined above");
    return static_cast<SizeId>(id);
  }
  ValueId value_id() {
    expect("v");
    int64_t id = integer();
    if (id < 0 || id >= static_cast<int64_t>(g_.values.size()))
      wrong("a value that is defined above");
    return static_cast<ValueId>(id);
  }
  void new_number(const char* prefix, int64_t wanted) {
    expect(prefix);
    if (integer() != wanted) wrong(text("number ", wanted));
  }
  DType dtype() { return parse_dtype(word()); }
  template <class Item>
  auto list(const Item& item) {
    std::vector<decltype(item())> items;
    expect("[");
    while (!accept("]")) items.push_back(item());
    return items;
  }
  Shape shape() {
    return list([this] { return size_id(); });
  }

  void parse_line() {
    if (accept("size ")) return parse_size();
    if (accept("source ")) return parse_source();
    if (accept("guard ")) return parse_guard();
    if (accept("require ")) return parse_requirement();
    if (accept("output ")) return g_.outputs.push_back(value_id());
    parse_value();
  }

  void parse_size() {
    int64_t wanted = g_.sizes.size();
    new_number("z", wanted);
    expect("=");
    SizeId made;
    if (accept("input ")) {
      made = g_.sizes.input(integer());
    } else if (skip(), at_ < line_.size() && line_[at_] == 'z') {
      SizeId a = size_id();
      std::optional<SizeOp> op;
      for (const Symbol& s : kSymbols) {
        if (!op && accept(s.text)) op = s.op;
      }
      if (!op) wrong("an operation on sizes");
      made = g_.sizes.binary(*op, a, size_id());
    } else {
      made = g_.sizes.constant(integer());
    }
    if (made != wanted) wrong("a size that is not defined above");
  }
  void parse_source() {
    if (integer() != static_cast<int64_t>(g_.size_sources.size())) wrong("the next number");
    expect("=");
    if (accept("argument "))
      return g_.size_sources.push_back({-1, static_cast<int32_t>(integer())});
    expect("input ");
    auto input = static_cast<int32_t>(integer());
    expect("dim ");
    g_.size_sources.push_back({input, static_cast<int32_t>(integer())});
  }
  void parse_guard() {
    SizeId a = size_id();
    bool equal = accept("==");
    if (!equal) expect("<");
    SizeId b = size_id();
    expect("is ");
    bool outcome = accept("true");
    if (!outcome) expect("false");
    g_.guards.push_back({equal ? Guard::Kind::equal : Guard::Kind::less, a, b, outcome});
  }
  void parse_requirement() {
    SizeId a = size_id();
    expect("==");
    SizeId b = size_id();
    skip();
    g_.requirements.push_back({a, b, std::string(line_.substr(at_))});
    at_ = line_.size();
  }
  void parse_value() {
    auto wanted = static_cast<int64_t>(g_.values.size());
    new_number("v", wanted);
    bool is_input = accept("= input "), is_number = !is_input && accept("= number ");
    if (is_input || is_number) {
      auto position = static_cast<size_t>(integer());
      if (position > g_.values.size() + kMostInputs) wrong("a position among the inputs");
      DType t = dtype();
      g_.values.push_back({t, shape(), -1, 0});
      if (g_.inputs.size() <= position) g_.inputs.resize(position + 1, {-1, false});
      g_.inputs[position] = {static_cast<ValueId>(wanted), is_number};
      return;
    }
    ResultTypes types;
    do {
      if (!types.empty()) new_number("v", wanted + static_cast<int64_t>(types.size()));
      DType t = dtype();
      types.emplace_back(t, shape());
    } while (accept(","));
    expect("=");
    std::string_view name = word();
    const Primitive* primitive = find_primitive(name);
    if (!primitive) wrong("the name of a primitive");
    expect("(");
    std::vector<ValueId> operands;
    while (!accept(")")) {
      if (!operands.empty()) expect(",");
      operands.push_back(value_id());
    }
    Attributes attributes;
    if (accept("ints=")) attributes.ints = list([this] { return integer(); });
    if (accept("sizes=")) attributes.sizes = shape();
    if (accept("dtype=")) attributes.dtype = dtype();
    g_.add_node(primitive, std::move(operands), std::move(attributes), std::move(types));
  }

  static constexpr size_t kMostInputs = 1 << 20;
  std::string_view all_, line_;
  size_t at_ = 0;
  int64_t number_ = 0;
  Graph g_;
};

}  // namespace

std::string print(const Graph& g) {
  std::string out;
  for (SizeId s = 0; s < static_cast<SizeId>(g.sizes.size()); ++s)
    out += text("size z", static_cast<int64_t>(s), " = ", size_line(g.sizes[s]), "\n");
  for (size_t i = 0; i < g.size_sources.size(); ++i) {
    SizeSource s = g.size_sources[i];
    out += text("source ", i, " = ");
    out += s.input < 0 ? text("argument ", static_cast<int64_t>(s.dim), "\n")
                       : text("input ", static_cast<int64_t>(s.input), " dim ",
                              static_cast<int64_t>(s.dim), "\n");
  }
  for (const Guard& guard : g.guards) {
    out += text("guard z", static_cast<int64_t>(guard.a),
                guard.kind == Guard::Kind::equal ? " == z" : " < z", static_cast<int64_t>(guard.b),
                " is ", guard.outcome ? "true\n" : "false\n");
  }
  for (const Requirement& r : g.requirements)
    out += text("require z", static_cast<int64_t>(r.a), " == z", static_cast<int64_t>(r.b), " ",
                r.message, "\n");
  for (ValueId v = 0; v < static_cast<ValueId>(g.values.size()); ++v) {
    const Value& value = g.value(v);
    if (value.node >= 0) {
      if (value.output == 0) out += node_line(g, *g.node_of(v)) + "\n";
      continue;
    }
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      if (g.inputs[i].value != v) continue;
      out += text("v", static_cast<int64_t>(v), g.inputs[i].number ? " = number " : " = input ", i,
                  " ", value.dtype, " ", listed(value.shape, "z"), "\n");
    }
  }
  for (ValueId v : g.outputs) out += text("output v", static_cast<int64_t>(v), "\n");
  return out;
}

Graph parse(std::string_view text) { return Parser(text).run(); }

}  // namespace flambeau::graph
