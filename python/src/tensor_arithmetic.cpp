// Python's symbols on tensors: number slots and comparisons. Each calls its operator's object
// directly; what the operator does not take is NotImplemented, so that the other operand has its
// turn.
#include <algorithm>

#include "convert.h"
#include "flambeau/base/error.h"
#include "flambeau/io/element.h"
#include "numpy.h"
#include "operator_table.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

/// An operator's method, looked up at first use.
class Method {
 public:
  explicit constexpr Method(const char* name) : name_(name) {}
  OperatorObject* get() {
    if (!object_) object_ = find_method(name_);
    return object_;
  }

 private:
  const char* name_;
  OperatorObject* object_ = nullptr;
};

/// The result, or NotImplemented where the operator does not exist or takes no such operands.
PyObject* call_or_decline(OperatorObject* op, PyObject* a, PyObject* b) {
  PyObject* args[] = {a, b};
  PyObject* result;
  if (op && try_call(op, args, b ? 2 : 1, nullptr, &result)) return result;
  Py_RETURN_NOTIMPLEMENTED;
}

/// A number as a 0-d tensor beside `other`: of other's dtype where that holds it, so that the
/// result is what the number itself would give.
Object number_beside(PyObject* number, const Tensor& other) {
  Scalar value;
  if (!as_scalar(number, &value)) return Object();
  DType dtype = other.dtype();
  DType own = value.dtype();
  if (category(own) > category(dtype)) {
    dtype = own;
  } else if (other.dim() > 0 && is_float(dtype) && itemsize(dtype) < 4) {
    dtype = DType::float32;
  }
  return checked(wrap(scalar_tensor(value, dtype)));
}

/// a OP b where `a` is no tensor.
PyObject* call_reflected(OperatorObject* op, PyObject* a, PyObject* b) {
  PyObject* result = call_or_decline(op, a, b);
  if (result != Py_NotImplemented || !op) return result;
  Py_DECREF(result);
  return guarded([&]() -> PyObject* {
    Object left = number_beside(a, unwrap(b));
    if (!left && is_numpy_array(a)) left = checked(tensor_from_numpy(a, false));
    if (!left) Py_RETURN_NOTIMPLEMENTED;
    return call_or_decline(op, left.get(), b);
  });
}

/// tensor OP b; an array of NumPy counts as a tensor.
PyObject* call_forward(OperatorObject* op, PyObject* a, PyObject* b) {
  PyObject* result = call_or_decline(op, a, b);
  if (result != Py_NotImplemented || !is_numpy_array(b)) return result;
  Py_DECREF(result);
  Object right = Object::steal(tensor_from_numpy(b, false));
  return right ? call_or_decline(op, a, right.get()) : nullptr;
}

constinit Method add("add"), sub("sub"), rsub("rsub"), mul("mul"), div("div"),
    floor_divide("floor_divide"), remainder("remainder"), matmul("matmul"), power("pow"),
    bitwise_and("bitwise_and"), bitwise_or("bitwise_or"), bitwise_xor("bitwise_xor"),
    shift_left("bitwise_left_shift"), shift_right("bitwise_right_shift");
constinit Method add_("add_"), sub_("sub_"), mul_("mul_"), div_("div_"),
    floor_divide_("floor_divide_"), remainder_("remainder_"), power_("pow_"),
    bitwise_and_("bitwise_and_"), bitwise_or_("bitwise_or_"), bitwise_xor_("bitwise_xor_"),
    shift_left_("bitwise_left_shift_"), shift_right_("bitwise_right_shift_");
constinit Method neg("neg"), positive("positive"), absolute("abs"), bitwise_not("bitwise_not");
constinit Method lt("lt"), le("le"), eq("eq"), ne("ne"), gt("gt"), ge("ge");

template <Method* op>
PyObject* binary(PyObject* a, PyObject* b) {
  return is_tensor(a) ? call_forward(op->get(), a, b) : call_reflected(op->get(), a, b);
}
/// For operators whose operands may change places.
template <Method* op>
PyObject* commutative(PyObject* a, PyObject* b) {
  return is_tensor(a) ? call_forward(op->get(), a, b) : call_forward(op->get(), b, a);
}
template <Method* op>
PyObject* in_place(PyObject* a, PyObject* b) {
  return call_forward(op->get(), a, b);
}
template <Method* op>
PyObject* unary(PyObject* a) {
  PyObject* result = call_or_decline(op->get(), a, nullptr);
  if (result != Py_NotImplemented) return result;
  Py_DECREF(result);
  PyErr_SetString(PyExc_TypeError, "this build has no operator for the symbol");
  return nullptr;
}

PyObject* subtract(PyObject* a, PyObject* b) {
  if (is_tensor(a) || !rsub.get()) return binary<&sub>(a, b);
  PyObject* result = call_or_decline(rsub.get(), b, a);
  if (result != Py_NotImplemented) return result;
  Py_DECREF(result);
  return call_reflected(sub.get(), a, b);
}

template <Method* op>
PyObject* raise(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return binary<op>(a, b);
}

int is_true(PyObject* self) {
  return guarded(
      [&] {
        Tensor t = unwrap(self);
        check(t.numel() != 0, ErrorKind::runtime,
              "Boolean value of Tensor with no values is ambiguous");
        check(t.numel() == 1, ErrorKind::runtime,
              "Boolean value of Tensor with more than one value is ambiguous");
        return item(t).boolean() ? 1 : 0;
      },
      -1);
}

PyObject* to_float(PyObject* self) {
  return guarded([&] {
    Scalar value = item(unwrap(self));
    check(value.imag() == 0, ErrorKind::runtime,
          "value cannot be converted to type double without overflow");
    return PyFloat_FromDouble(value.real());
  });
}
PyObject* to_int(PyObject* self) {
  return guarded([&] {
    Scalar value = item(unwrap(self));
    check(value.imag() == 0, ErrorKind::runtime,
          "value cannot be converted to type int64_t without overflow");
    return value.is_integral() ? PyLong_FromLongLong(value.integer())
                               : PyLong_FromDouble(value.real());
  });
}
PyObject* to_index(PyObject* self) {
  return guarded([&] {
    Tensor t = unwrap(self);
    check(t.numel() == 1 && category(t.dtype()) <= 1, ErrorKind::type,
          "only integer tensors of a single element can be converted to an index");
    return PyLong_FromLongLong(item(t).integer());
  });
}

}  // namespace

PyNumberMethods tensor_number = {
    .nb_add = commutative<&add>,
    .nb_subtract = subtract,
    .nb_multiply = commutative<&mul>,
    .nb_remainder = binary<&remainder>,
    .nb_power = raise<&power>,
    .nb_negative = unary<&neg>,
    .nb_positive = unary<&positive>,
    .nb_absolute = unary<&absolute>,
    .nb_bool = is_true,
    .nb_invert = unary<&bitwise_not>,
    .nb_lshift = binary<&shift_left>,
    .nb_rshift = binary<&shift_right>,
    .nb_and = commutative<&bitwise_and>,
    .nb_xor = commutative<&bitwise_xor>,
    .nb_or = commutative<&bitwise_or>,
    .nb_int = to_int,
    .nb_float = to_float,
    .nb_inplace_add = in_place<&add_>,
    .nb_inplace_subtract = in_place<&sub_>,
    .nb_inplace_multiply = in_place<&mul_>,
    .nb_inplace_remainder = in_place<&remainder_>,
    .nb_inplace_power = raise<&power_>,
    .nb_inplace_lshift = in_place<&shift_left_>,
    .nb_inplace_rshift = in_place<&shift_right_>,
    .nb_inplace_and = in_place<&bitwise_and_>,
    .nb_inplace_xor = in_place<&bitwise_xor_>,
    .nb_inplace_or = in_place<&bitwise_or_>,
    .nb_floor_divide = binary<&floor_divide>,
    .nb_true_divide = binary<&div>,
    .nb_inplace_floor_divide = in_place<&floor_divide_>,
    .nb_inplace_true_divide = in_place<&div_>,
    .nb_index = to_index,
    .nb_matrix_multiply = binary<&matmul>,
};

PyObject* compare_tensors(PyObject* a, PyObject* b, int operation) {
  static constexpr Method* kMethods[] = {&lt, &le, &eq,
                                         &ne, &gt, &ge};  // in the order of Py_LT ... Py_GE
  return call_forward(kMethods[operation]->get(), a, b);
}

}  // namespace flambeau::python
