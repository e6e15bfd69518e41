// A recursive-descent parser over one line of text. What it accepts is the field's notation as far
// as operators here need it; everything else is a defect of the definition and quoted in the
// message.
#include "flambeau/run/schema.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>

#include "flambeau/base/error.h"

namespace flambeau {

namespace {

// The prefixes that make `a.b` a name and not the overload `b` of `a`.
constexpr std::array<std::string_view, 10> kNamespaces = {
    "nn",  "nn.functional", "nn.init",        "linalg", "special",
    "fft", "signal",        "signal.windows", "optim",  "masked"};

bool is_namespace(std::string_view name) {
  return std::find(kNamespaces.begin(), kNamespaces.end(), name) != kNamespaces.end();
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Schema parse() {
    schema_.text = text_;
    parse_names();
    parse_arguments();
    expect("->");
    parse_returns();
    if (at_ != text_.size()) malformed("the end");
    return std::move(schema_);
  }

 private:
  [[noreturn]] void malformed(std::string_view expected) const {
    fail(ErrorKind::internal, text("internal error: schema '", text_, "': expected ", expected,
                                   " at '", text_.substr(at_), "'"));
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  char peek() {
    skip_spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(std::string_view token) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) malformed(text("'", token, "'"));
  }
  std::string_view word() {
    skip_spaces();
    size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    if (at_ == start) malformed("a name");
    return text_.substr(start, at_ - start);
  }

  void parse_names() {
    size_t end = text_.find('(');
    if (end == std::string_view::npos) malformed("'('");
    std::string_view all = text_.substr(0, end);
    for (size_t start = 0; start <= all.size();) {
      size_t bar = std::min(all.find('|', start), all.size());
      std::string_view name = all.substr(start, bar - start);
      size_t dot = name.rfind('.');
      if (dot != std::string_view::npos && !is_namespace(name.substr(0, dot))) {
        std::string_view overload = name.substr(dot + 1);
        if (!schema_.overload.empty() && schema_.overload != overload)
          malformed("one overload name");
        schema_.overload = overload;
        name = name.substr(0, dot);
      }
      if (name.empty()) malformed("a name");
      schema_.names.emplace_back(name);
      start = bar + 1;
    }
    at_ = end;
  }

  void parse_arguments() {
    expect("(");
    bool keyword_only = false;
    if (accept(")")) return;
    do {
      if (accept("*")) {
        keyword_only = true;
        continue;
      }
      SchemaArgument argument;
      parse_type(&argument);
      argument.keyword_only = keyword_only;
      argument.name = word();
      if (accept("=")) {
        argument.has_default = true;
        argument.default_value = parse_default(argument);
      }
      for (const auto& other : schema_.arguments) {
        if (other.name == argument.name) malformed("another argument name");
      }
      schema_.arguments.push_back(std::move(argument));
    } while (accept(","));
    expect(")");
  }

  void parse_type(SchemaArgument* argument) {
    struct Name {
      std::string_view name;
      ArgumentType type;
    };
    static constexpr Name kTypes[] = {
        {"Tensor", ArgumentType::tensor},
        {"bool", ArgumentType::boolean},
        {"int", ArgumentType::dim},
        {"SymInt", ArgumentType::size},
        {"Scalar", ArgumentType::number},
        {"float", ArgumentType::real},
        {"ScalarType", ArgumentType::dtype},
        {"str", ArgumentType::text},
        {"Device", ArgumentType::device},
        {"Layout", ArgumentType::layout},
        {"MemoryFormat", ArgumentType::memory_format},
    };
    skip_spaces();
    size_t start = at_;
    std::string_view given = word();
    const Name* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                     [&](const Name& n) { return n.name == given; });
    if (found == std::end(kTypes)) {
      at_ = start;
      malformed("an argument type");
    }
    argument->type = found->type;
    argument->written = accept_alias_set();
    bool optional_elements = accept("?");
    if (accept("[")) {
      parse_list(argument, optional_elements);
      argument->nullable = accept("?");
    } else {
      argument->nullable = optional_elements;
    }
  }

  /// "(a)", "(a!)", "(a -> *)". True where the argument is written.
  bool accept_alias_set() {
    if (at_ >= text_.size() || text_[at_] != '(') return false;
    size_t end = text_.find(')', at_);
    if (end == std::string_view::npos) malformed("')'");
    bool written = text_.substr(at_, end - at_).find('!') != std::string_view::npos;
    at_ = end + 1;
    return written;
  }

  void parse_list(SchemaArgument* argument, bool optional_elements) {
    if (peek() != ']') argument->list_length = parse_integer();
    expect("]");
    switch (argument->type) {
      case ArgumentType::tensor:
        argument->type = optional_elements ? ArgumentType::optional_tensors : ArgumentType::tensors;
        return;
      case ArgumentType::dim:
        argument->type = ArgumentType::dims;
        break;
      case ArgumentType::size:
        argument->type = ArgumentType::sizes;
        break;
      default:
        malformed("a list of Tensor, int or SymInt");
    }
    if (optional_elements) malformed("a list of numbers that are not None");
  }

  int64_t parse_integer() {
    skip_spaces();
    int64_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) malformed("an integer");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  Number parse_number() {
    skip_spaces();
    if (accept("True")) return Number(true);
    if (accept("False")) return Number(false);
    if (accept("inf")) return Number(std::numeric_limits<double>::infinity());
    if (accept("-inf")) return Number(-std::numeric_limits<double>::infinity());
    if (accept("nan")) return Number(std::numeric_limits<double>::quiet_NaN());
    size_t end = std::min(text_.find_first_of(",)]", at_), text_.size());
    std::string_view token = text_.substr(at_, end - at_);
    while (!token.empty() && token.back() == ' ') token.remove_suffix(1);
    bool integral = token.find_first_of(".eE") == std::string_view::npos;
    int64_t integer = 0;
    double real = 0;
    auto result = integral ? std::from_chars(token.data(), token.data() + token.size(), integer)
                           : std::from_chars(token.data(), token.data() + token.size(), real);
    if (result.ec != std::errc() || result.ptr != token.data() + token.size())
      malformed("a number");
    at_ += token.size();
    return integral ? Number(integer) : Number(real);
  }

  std::string parse_text() {
    char quote = peek();
    if (quote != '\'' && quote != '"') malformed("a quoted text");
    size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) malformed("a closing quote");
    std::string result(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return result;
  }

  /// A list, or one integer that stands for all elements of a list of given length.
  std::vector<int64_t> parse_integers(const SchemaArgument& argument) {
    if (!accept("[")) {
      if (argument.list_length < 0) malformed("a list");
      return std::vector<int64_t>(static_cast<size_t>(argument.list_length), parse_integer());
    }
    std::vector<int64_t> values;
    if (accept("]")) return values;
    do {
      values.push_back(parse_integer());
    } while (accept(","));
    expect("]");
    return values;
  }

  Argument parse_default(const SchemaArgument& argument) {
    if (accept("None")) {
      if (!argument.nullable) malformed("a default that is not None");
      return Argument();
    }
    switch (argument.type) {
      case ArgumentType::boolean:
        if (accept("True")) return Argument(true);
        if (accept("False")) return Argument(false);
        malformed("True or False");
      case ArgumentType::dim:
        return Argument(Dim(parse_integer()));
      case ArgumentType::size:
        return Argument(Size(parse_integer()));
      case ArgumentType::dims:
        return Argument(DimList(parse_integers(argument)));
      case ArgumentType::sizes: {
        std::vector<int64_t> values = parse_integers(argument);
        return Argument(Sizes(values.begin(), values.end()));
      }
      case ArgumentType::number:
        return Argument(parse_number());
      case ArgumentType::real:
        return Argument(Number(parse_number().scalar().real()));
      case ArgumentType::dtype:
        return Argument(parse_dtype(word()));
      case ArgumentType::text:
        return Argument(parse_text());
      case ArgumentType::device:
        return Argument(parse_device(parse_text()));
      case ArgumentType::layout:
        expect("strided");
        return Argument();
      case ArgumentType::memory_format:
        if (!accept("contiguous_format") && !accept("preserve_format"))
          malformed("a memory format");
        return Argument();
      case ArgumentType::tensors:
      case ArgumentType::optional_tensors:
        expect("[");
        expect("]");
        return Argument(TensorList());
      case ArgumentType::tensor:
        malformed("None, the only default of a Tensor");
    }
    malformed("a default");
  }

  void parse_returns() {
    if (!accept("(")) {
      schema_.returns = parse_return_type();
      return;
    }
    schema_.returns = 0;
    if (accept(")")) return;
    bool named = false;
    do {
      if (parse_return_type() != 1) malformed("tensors, where there are several results");
      ++schema_.returns;
      char c = peek();
      if (c != ',' && c != ')') {
        schema_.return_names.emplace_back(word());
        named = true;
      }
    } while (accept(","));
    expect(")");
    if (named && static_cast<int>(schema_.return_names.size()) != schema_.returns) {
      malformed("a name for each result, or for none");
    }
  }

  /// 1 for a tensor, -1 for a list of tensors, 0 for another value.
  int parse_return_type() {
    bool tensor = word() == "Tensor";
    accept_alias_set();
    bool list = accept("[");
    if (list) {
      if (peek() != ']') parse_integer();
      expect("]");
    }
    return tensor ? (list ? -1 : 1) : 0;
  }

  std::string_view text_;
  size_t at_ = 0;
  Schema schema_;
};

}  // namespace

Schema parse_schema(std::string_view text) { return Parser(text).parse(); }

std::string_view type_name(ArgumentType type) {
  switch (type) {
    case ArgumentType::tensor:
      return "Tensor";
    case ArgumentType::tensors:
      return "tuple of Tensors";
    case ArgumentType::optional_tensors:
      return "tuple of Tensors or None";
    case ArgumentType::boolean:
      return "bool";
    case ArgumentType::dim:
    case ArgumentType::size:
      return "int";
    case ArgumentType::dims:
    case ArgumentType::sizes:
      return "tuple of ints";
    case ArgumentType::number:
      return "Number";
    case ArgumentType::real:
      return "float";
    case ArgumentType::dtype:
      return "torch.dtype";
    case ArgumentType::text:
      return "str";
    case ArgumentType::device:
      return "torch.device";
    case ArgumentType::layout:
      return "torch.layout";
    case ArgumentType::memory_format:
      return "torch.memory_format";
  }
  return "unknown";
}

}  // namespace flambeau
