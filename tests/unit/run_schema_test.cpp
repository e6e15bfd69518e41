#include <gtest/gtest.h>

#include <cmath>

#include "flambeau/base/error.h"
#include "flambeau/run/operator.h"
#include "flambeau/run/schema.h"

namespace flambeau {
namespace {

TEST(Schema, NamesAliasesAndOverload) {
  Schema plain = parse_schema("relu|nn.functional.relu(Tensor self) -> Tensor");
  EXPECT_EQ(plain.names, (std::vector<std::string>{"relu", "nn.functional.relu"}));
  EXPECT_EQ(plain.overload, "");
  Schema overload = parse_schema("multiply|mul.Scalar(Tensor self, Scalar other) -> Tensor");
  EXPECT_EQ(overload.names, (std::vector<std::string>{"multiply", "mul"}));
  EXPECT_EQ(overload.overload, "Scalar");
  Schema repeated = parse_schema("sub.Tensor|subtract.Tensor(Tensor self, Tensor other) -> Tensor");
  EXPECT_EQ(repeated.names, (std::vector<std::string>{"sub", "subtract"}));
  EXPECT_EQ(repeated.overload, "Tensor");
  Schema spaced = parse_schema("linalg.norm.ord_str(Tensor self, str ord) -> Tensor");
  EXPECT_EQ(spaced.names, (std::vector<std::string>{"linalg.norm"}));
  EXPECT_EQ(spaced.overload, "ord_str");
}

TEST(Schema, ArgumentTypes) {
  Schema s = parse_schema(
      "f(Tensor(a!) self, Tensor? weight, Tensor[] many, Tensor?[] some, bool flag, int dim, "
      "int[1]? dims, SymInt n, SymInt[2] sizes, Scalar? other, float eps, ScalarType? dtype, "
      "str mode, Device? device, *, Layout? layout=None, MemoryFormat? memory_format=None) -> ()");
  using enum ArgumentType;
  const ArgumentType types[] = {tensor, tensor, tensors, optional_tensors, boolean, dim,
                                dims,   size,   sizes,   number,           real,    dtype,
                                text,   device, layout,  memory_format};
  const bool nullable[] = {false, true, false, false, false, false, true, false,
                           false, true, false, true,  false, true,  true, true};
  ASSERT_EQ(s.arguments.size(), std::size(types));
  for (size_t i = 0; i < s.arguments.size(); ++i) {
    EXPECT_EQ(s.arguments[i].type, types[i]) << s.arguments[i].name;
    EXPECT_EQ(s.arguments[i].nullable, nullable[i]) << s.arguments[i].name;
    EXPECT_EQ(s.arguments[i].keyword_only, i >= 14) << s.arguments[i].name;
    EXPECT_EQ(s.arguments[i].written, i == 0) << s.arguments[i].name;
  }
  EXPECT_EQ(s.arguments[6].list_length, 1);
  EXPECT_EQ(s.arguments[8].list_length, 2);
  EXPECT_EQ(s.arguments[2].list_length, -1);
  EXPECT_EQ(s.returns, 0);
}

TEST(Schema, Defaults) {
  Schema s = parse_schema(
      "f(bool a=True, int b=-1, int[2] c=1, int[] d=[0, 1], SymInt[2] e=[3, 4], Scalar g=1, "
      "Scalar h=1.5, float i=1e-05, float j=1, float k=-inf, str l='mean', ScalarType m=int64, "
      "Tensor? n=None, int[] o=[]) -> Tensor");
  auto value = [&](size_t i) -> const Argument& { return s.arguments[i].default_value; };
  EXPECT_EQ(std::get<bool>(value(0)), true);
  EXPECT_EQ(std::get<Dim>(value(1)).value, -1);
  EXPECT_EQ(std::get<DimList>(value(2)), (DimList{1, 1}));
  EXPECT_EQ(std::get<DimList>(value(3)), (DimList{0, 1}));
  ASSERT_EQ(std::get<Sizes>(value(4)).size(), 2u);
  EXPECT_EQ(std::get<Sizes>(value(4))[1].value, 4);
  EXPECT_EQ(std::get<Number>(value(5)).kind(), Scalar::Kind::integer);
  EXPECT_EQ(std::get<Number>(value(6)).scalar().real(), 1.5);
  EXPECT_EQ(std::get<Number>(value(7)).scalar().real(), 1e-05);
  EXPECT_EQ(std::get<Number>(value(8)).kind(), Scalar::Kind::real);
  EXPECT_TRUE(std::isinf(std::get<Number>(value(9)).scalar().real()));
  EXPECT_EQ(std::get<std::string>(value(10)), "mean");
  EXPECT_EQ(std::get<DType>(value(11)), DType::int64);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(value(12)));
  EXPECT_TRUE(std::get<DimList>(value(13)).empty());
  for (const auto& argument : s.arguments) EXPECT_TRUE(argument.has_default) << argument.name;
}

TEST(Schema, Returns) {
  EXPECT_EQ(parse_schema("f() -> Tensor").returns, 1);
  EXPECT_EQ(parse_schema("f(Tensor(a) self) -> Tensor(a)").returns, 1);
  EXPECT_EQ(parse_schema("f(Tensor(a -> *) self) -> Tensor(a)[]").returns, -1);
  EXPECT_EQ(parse_schema("f() -> bool").returns, 0);
  EXPECT_EQ(parse_schema("f() -> (Tensor, Tensor, Tensor)").returns, 3);
  Schema named = parse_schema("max.dim(Tensor self, int dim) -> (Tensor values, Tensor indices)");
  EXPECT_EQ(named.returns, 2);
  EXPECT_EQ(named.return_names, (std::vector<std::string>{"values", "indices"}));
}

TEST(Schema, MalformedIsQuoted) {
  for (const char* bad :
       {"f", "f(Tensor self", "f(Tensor self) Tensor", "f(Banana x) -> Tensor", "f(int) -> Tensor",
        "f(int a=x) -> Tensor", "f(int a=None) -> Tensor", "f(Tensor a=1) -> Tensor",
        "() -> Tensor", "f(int a, int a) -> Tensor", "f() -> (Tensor a, Tensor)", "f() -> Tensor x",
        "f.a|g.b(int a) -> Tensor", "f(str s='a) -> Tensor", "f(Scalar s=1.5x) -> Tensor",
        "f(bool[2] m) -> Tensor"}) {
    try {
      parse_schema(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::internal);
      EXPECT_NE(std::string(e.what()).find(bad), std::string::npos) << e.what();
    }
  }
}

void no_body(const void*, Argument*, Argument*) {}

TEST(OperatorList, FindsByNameAndAliasInOrderOfDefinition) {
  // Operators live for the whole process.
  static const Operator first("zz_b|zz_c.one(Tensor self) -> Tensor", "", no_body, nullptr,
                              BodyKind::composite, kDefaultForms);
  auto before = all_operators().size();
  static const Operator second("zz_c.two(Tensor self) -> Tensor", "", no_body, nullptr,
                               BodyKind::composite, kDefaultForms);
  static const Operator third("zz_a(Tensor self) -> Tensor", "", no_body, nullptr,
                              BodyKind::composite, kDefaultForms);
  EXPECT_EQ(find_operators("zz_c"), (std::vector<const Operator*>{&first, &second}));
  EXPECT_EQ(find_operators("zz_b"), (std::vector<const Operator*>{&first}));
  EXPECT_TRUE(find_operators("zz_none").empty());
  const auto& all = all_operators();
  EXPECT_EQ(all.size(), before + 2);
  for (size_t i = 1; i < all.size(); ++i) {
    EXPECT_LE(all[i - 1]->schema().names[0], all[i]->schema().names[0]);
  }
}

}  // namespace
}  // namespace flambeau
