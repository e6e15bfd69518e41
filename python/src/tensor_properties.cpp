// Attributes of Tensor that are no operators.
#include "device_object.h"
#include "dtype_object.h"
#include "flambeau/autograd/autograd.h"
#include "flambeau/base/error.h"
#include "flambeau/run/deferred.h"
#include "node_object.h"
#include "operator_table.h"
#include "size_object.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

constinit NativeOperator transpose("transpose"), permute("permute"), conjugate("conj"),
    real_part("real"), imaginary_part("imag");

PyObject* get_shape(PyObject* self, void*) {
  return guarded([&] { return wrap_size(unwrap(self).sizes()); });
}
PyObject* get_dtype(PyObject* self, void*) {
  return guarded([&] { return Py_NewRef(dtype_object(unwrap(self).dtype())); });
}
PyObject* get_device(PyObject* self, void*) {
  return guarded([&] { return wrap_device(unwrap(self).device()); });
}
PyObject* get_layout(PyObject*, void*) { return Py_NewRef(strided_layout()); }
PyObject* get_ndim(PyObject* self, void*) {
  return guarded([&] { return PyLong_FromLongLong(unwrap(self).dim()); });
}
PyObject* get_itemsize(PyObject* self, void*) {
  return guarded([&] { return PyLong_FromLongLong(itemsize(unwrap(self).dtype())); });
}
PyObject* get_nbytes(PyObject* self, void*) {
  return guarded([&] {
    Tensor t = unwrap(self);
    return PyLong_FromLongLong(t.numel() * itemsize(t.dtype()));
  });
}

PyObject* get_requires_grad(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(unwrap(self).requires_grad()); });
}
int set_requires_grad(PyObject* self, PyObject* value, void*) {
  return guarded(
      [&] {
        check(value && PyBool_Check(value), ErrorKind::runtime, "requires_grad must be a bool");
        autograd::set_requires_grad(unwrap(self), value == Py_True);
        return 0;
      },
      -1);
}
PyObject* get_grad(PyObject* self, void*) {
  return guarded([&] { return wrap(autograd::grad(unwrap(self))); });
}
int set_grad(PyObject* self, PyObject* value, void*) {
  return guarded(
      [&] {
        Tensor t = unwrap(self), grad;
        if (value && value != Py_None) {
          check(is_tensor(value), ErrorKind::type,
                "assigned grad expected to be a Tensor or None but got grad of type ",
                type_name_of(value));
          check(value != self, ErrorKind::runtime, "can't assign Variable as its own grad");
          grad = unwrap(value);
        }
        autograd::set_grad(t, grad);
        return 0;
      },
      -1);
}
PyObject* get_grad_fn(PyObject* self, void*) {
  return guarded([&] { return wrap_node(autograd::grad_fn(unwrap(self))); });
}
PyObject* get_is_leaf(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(autograd::is_leaf(unwrap(self))); });
}
PyObject* get_output_number(PyObject* self, void*) {
  return guarded([&] { return PyLong_FromLong(autograd::output_number(unwrap(self))); });
}
PyObject* get_retains_grad(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(autograd::retains_grad(unwrap(self))); });
}
PyObject* get_version(PyObject* self, void*) {
  return guarded([&] { return PyLong_FromUnsignedLong(unwrap(self).storage().version()); });
}
PyObject* get_base(PyObject* self, void*) {
  return guarded([&] { return wrap(autograd::view_base(unwrap(self))); });
}

PyObject* get_data(PyObject* self, void*) {
  return guarded([&] { return wrap(autograd::detach(unwrap(self))); });
}
/// tensor.data = other: this object takes over memory and shape of the other; its place on the tape
/// stays.
int set_data(PyObject* self, PyObject* value, void*) {
  return guarded(
      [&] {
        check(value && is_tensor(value), ErrorKind::type,
              "Variable data has to be a tensor, but got ",
              value ? type_name_of(value) : "nothing");
        run::flush();  // what is recorded names this tensor with its present memory
        TensorImpl* to = unwrap(self).impl();
        Tensor source = unwrap(value);
        const TensorImpl* from = source.impl();
        check(
            !to->requires_grad() || is_inexact(from->dtype), ErrorKind::runtime,
            "data set to a tensor that requires gradients must be floating point or complex dtype");
        to->sizes = from->sizes;
        to->strides = from->strides;
        to->offset = from->offset;
        to->numel = from->numel;
        to->dtype = from->dtype;
        to->device = from->device;
        to->contiguous = from->contiguous;
        to->storage = from->storage;
        return 0;
      },
      -1);
}

DimList reversed_dims(int64_t count) {
  DimList dims;
  for (int64_t d = count; d-- > 0;) dims.push_back(d);
  return dims;
}
PyObject* get_T(PyObject* self, void*) {
  return guarded([&] {
    Tensor t = unwrap(self);
    return wrap(permute({t, reversed_dims(t.dim())}));
  });
}
Tensor transposed_matrix(const Tensor& t, const char* name) {
  check(t.dim() >= 2, ErrorKind::runtime, "tensor.", name,
        " is only supported on matrices or batches of matrices. Got ", t.dim(), "-D tensor.");
  return transpose({t, Dim(-2), Dim(-1)});
}
PyObject* get_mT(PyObject* self, void*) {
  return guarded([&] { return wrap(transposed_matrix(unwrap(self), "mT")); });
}
Tensor conjugated(const Tensor& t) { return is_complex(t.dtype()) ? conjugate({t}) : t; }
PyObject* get_mH(PyObject* self, void*) {
  return guarded([&] { return wrap(conjugated(transposed_matrix(unwrap(self), "mH"))); });
}
PyObject* get_H(PyObject* self, void*) {
  return guarded([&] {
    Tensor t = unwrap(self);
    check(t.dim() == 0 || t.dim() == 2, ErrorKind::runtime,
          "tensor.H is only supported on matrices (2-D tensors). Got ", t.dim(),
          "-D tensor. For batches of matrices, consider using tensor.mH");
    return wrap(conjugated(t.dim() == 2 ? transposed_matrix(t, "H") : permute({t, DimList()})));
  });
}

PyObject* get_real(PyObject* self, void*) {
  return guarded([&] {
    Tensor t = unwrap(self);
    return is_complex(t.dtype()) ? wrap(real_part({t})) : Py_NewRef(self);
  });
}
PyObject* get_imag(PyObject* self, void*) {
  return guarded([&] {
    Tensor t = unwrap(self);
    check(is_complex(t.dtype()), ErrorKind::runtime,
          "imag is not implemented for tensors with non-complex dtypes.");
    return wrap(imaginary_part({t}));
  });
}

PyObject* get_false(PyObject*, void*) { Py_RETURN_FALSE; }
PyObject* get_is_cpu(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(unwrap(self).device().type == DeviceType::cpu); });
}
PyObject* get_is_cuda(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(unwrap(self).device().type == DeviceType::cuda); });
}
// NumPy asks the operand with the larger number first: tensor operators decide about mixed
// operands.
PyObject* get_array_priority(PyObject*, void*) { return PyLong_FromLong(1000); }

}  // namespace

PyGetSetDef tensor_properties[] = {
    {"shape", get_shape, nullptr, "Sizes of the dims.", nullptr},
    {"dtype", get_dtype, nullptr, "Type of the elements.", nullptr},
    {"device", get_device, nullptr, "Where the memory is.", nullptr},
    {"layout", get_layout, nullptr, "torch.strided.", nullptr},
    {"ndim", get_ndim, nullptr, "Number of dims.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes of an element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad,
     "Whether gradients are computed for it.", nullptr},
    {"grad", get_grad, set_grad, "The accumulated gradient, or None.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The call that made it, or None for leaves.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "Whether it is no result of a recorded call.", nullptr},
    {"output_nr", get_output_number, nullptr, "Which result of grad_fn it is.", nullptr},
    {"retains_grad", get_retains_grad, nullptr,
     "Whether a tensor that is no leaf keeps its gradient.", nullptr},
    {"data", get_data, set_data, "The same memory, on no tape.", nullptr},
    {"_version", get_version, nullptr, "Number of writes to the memory.", nullptr},
    {"_base", get_base, nullptr, "The tensor that it is a view of, or None.", nullptr},
    {"T", get_T, nullptr, "Dims in reverse order.", nullptr},
    {"mT", get_mT, nullptr, "The last two dims exchanged.", nullptr},
    {"H", get_H, nullptr, "Conjugate and transpose of a matrix.", nullptr},
    {"mH", get_mH, nullptr, "Conjugate, with the last two dims exchanged.", nullptr},
    {"real", get_real, nullptr, "Real parts.", nullptr},
    {"imag", get_imag, nullptr, "Imaginary parts.", nullptr},
    {"is_cpu", get_is_cpu, nullptr, nullptr, nullptr},
    {"is_cuda", get_is_cuda, nullptr, nullptr, nullptr},
    {"is_sparse", get_false, nullptr, nullptr, nullptr},
    {"is_quantized", get_false, nullptr, nullptr, nullptr},
    {"is_meta", get_false, nullptr, nullptr, nullptr},
    {"is_mps", get_false, nullptr, nullptr, nullptr},
    {"is_nested", get_false, nullptr, nullptr, nullptr},
    {"__array_priority__", get_array_priority, nullptr, nullptr, nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace flambeau::python
