// x[...] and x[...] = y: an index is taken apart into view operators (select, slice, unsqueeze);
// where tensors are among it, one call of `index` or `index_put` follows.
#include <algorithm>
#include <vector>

#include "construct.h"
#include "convert.h"
#include "flambeau/base/error.h"
#include "flambeau/io/element.h"
#include "numpy.h"
#include "operator_table.h"
#include "tensor_object.h"

namespace flambeau::python {

namespace {

constinit NativeOperator select_op("select", "int"), slice_op("slice", "Tensor"),
    unsqueeze_op("unsqueeze"), view_op("view", ""), index_op("index", "Tensor"),
    index_put_op("index_put"), copy_op("copy"), fill_op("fill", "Scalar"),
    masked_fill_op("masked_fill", "Scalar");

bool is_mask(const Tensor& t) { return t.dtype() == DType::boolean || t.dtype() == DType::uint8; }
/// A list that holds sequences, tensors or slices, or numbers: NumPy's rule is that a list is an
/// array of indices.
bool is_index_list(PyObject* item) {
  if (is_numpy_array_or_derived(item)) return true;
  return PyList_Check(item) || PyTuple_Check(item);
}

/// The view that an index without tensors selects, and the tensors of the index by the dim of that
/// view.
class Selection {
 public:
  Selection(const Tensor& self, PyObject* index) : view_(self), rank_(self.dim()) {
    if (PyTuple_Check(index)) {
      count_ = PyTuple_GET_SIZE(index);
      items_ = &PyTuple_GET_ITEM(index, 0);
    } else {
      count_ = 1;
      single_ = index;
      items_ = &single_;
    }
    convert_items();
    int64_t used = 0;
    for (Py_ssize_t i = 0; i < count_; ++i) used += dims_used(i);
    check(used <= rank_, ErrorKind::index, "too many indices for tensor of dimension ", rank_);
    skipped_ = rank_ - used;
    for (Py_ssize_t i = 0; i < count_; ++i) apply(i);
  }

  const Tensor& view() const { return view_; }
  bool has_tensors() const { return has_tensors_; }
  const OptionalTensorList& indices() const { return indices_; }
  bool same_as_self() const { return !changed_; }

 private:
  void convert_items() {
    tensors_.resize(static_cast<size_t>(count_));
    for (Py_ssize_t i = 0; i < count_; ++i) {
      PyObject* item = items_[i];
      Tensor& t = tensors_[static_cast<size_t>(i)];
      if (is_tensor(item)) {
        t = unwrap(item);
      } else if (is_index_list(item)) {
        t = tensor_from_data(item, std::nullopt);
        if (t.numel() == 0 && !is_numpy_array_or_derived(item))
          t = empty_tensor(t.sizes(), DType::int64);
      } else {
        continue;
      }
      check(is_integer(t.dtype()) || is_mask(t), ErrorKind::index,
            "tensors used as indices must be long, int, byte or bool tensors, got ", t.dtype());
    }
  }

  int64_t dims_used(Py_ssize_t i) const {
    PyObject* item = items_[i];
    const Tensor& t = tensors_[static_cast<size_t>(i)];
    if (t.defined()) return is_mask(t) ? t.dim() : 1;
    return item == Py_None || item == Py_Ellipsis || PyBool_Check(item) ? 0 : 1;
  }

  void apply(Py_ssize_t i) {
    PyObject* item = items_[i];
    const Tensor& t = tensors_[static_cast<size_t>(i)];
    int64_t integer;
    if (t.defined()) {
      apply_tensor(t);
    } else if (item == Py_Ellipsis) {
      check(!ellipsis_, ErrorKind::index, "an index can only have a single ellipsis ('...')");
      ellipsis_ = true;
      dim_ += skipped_;
    } else if (item == Py_None) {
      change(unsqueeze_op({view_, Dim(dim_)}));
      ++dim_;
    } else if (PyBool_Check(item)) {
      apply_bool(item == Py_True);
    } else if (PySlice_Check(item)) {
      apply_slice(item);
    } else if (as_integer(item, &integer)) {
      apply_integer(integer);
    } else {
      fail(ErrorKind::type, text("tensor indices must be integers, slices (`:`), ellipsis (`...`), "
                                 "None, lists or long or byte tensors (got ",
                                 type_name_of(item), ")"));
    }
  }

  void apply_integer(int64_t integer) {
    check(rank_ != 0, ErrorKind::index,
          "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
          "C++ to convert a 0-dim tensor to a number");
    int64_t size = view_.size(dim_);
    check(integer >= -size && integer < size, ErrorKind::index, "index ", integer,
          " is out of bounds for dimension ", dim_, " with size ", size);
    change(select_op({view_, Dim(dim_), Dim(integer)}));
  }

  void apply_slice(PyObject* item) {
    Py_ssize_t start, stop, step;
    check_status(PySlice_Unpack(item, &start, &stop, &step));
    check(step > 0, ErrorKind::value, "step must be greater than zero");
    int64_t size = view_.size(dim_);
    // Clamped as Python does; an unchanged dim needs no view.
    PySlice_AdjustIndices(size, &start, &stop, step);
    if (start != 0 || stop != size || step != 1) {
      change(slice_op({view_, Dim(dim_), Dim(start), Dim(std::max(start, stop)), Dim(step)}));
    }
    ++dim_;
  }

  void apply_bool(bool value) {
    change(unsqueeze_op({view_, Dim(dim_)}));
    Tensor index = empty_tensor({value ? 1 : 0}, DType::int64);
    if (value) *index.data_as<int64_t>() = 0;
    add_index(index, 1);
  }

  void apply_tensor(const Tensor& t) {
    if (t.dim() == 0 && !is_mask(t)) return apply_integer(item(t).integer());
    if (t.dim() == 0) return apply_bool(item(t).boolean());
    if (is_mask(t)) {
      for (int64_t d = 0; d < t.dim(); ++d) {
        check(t.size(d) == view_.size(dim_ + d), ErrorKind::index, "The shape of the mask ",
              t.sizes(), " at index ", d, " does not match the shape of the indexed tensor ",
              view_.sizes(), " at index ", dim_ + d);
      }
    }
    add_index(t, is_mask(t) ? t.dim() : 1);
  }

  /// A mask stands for as many dims as it has, but is one entry of the list.
  void add_index(const Tensor& t, int64_t dims) {
    indices_.resize(static_cast<size_t>(dim_ - hidden_dims_ + 1));
    indices_.back() = t;
    hidden_dims_ += dims - 1;
    dim_ += dims;
    has_tensors_ = true;
  }

  void change(Tensor view) {
    view_ = std::move(view);
    changed_ = true;
  }

  Tensor view_;
  int64_t rank_;
  PyObject* single_ = nullptr;
  PyObject* const* items_;
  Py_ssize_t count_;
  std::vector<Tensor> tensors_;
  OptionalTensorList indices_;
  int64_t dim_ = 0;
  int64_t hidden_dims_ = 0;
  int64_t skipped_ = 0;
  bool ellipsis_ = false;
  bool has_tensors_ = false;
  bool changed_ = false;
};

Sizes sizes_argument(const Dims& dims) { return Sizes(dims.begin(), dims.end()); }

PyObject* get_item(PyObject* self, PyObject* index) {
  return guarded([&] {
    Tensor t = unwrap(self);
    if (PyLong_CheckExact(index) && t.dim() > 0) {
      int64_t i = PyLong_AsLongLong(index);
      if (i == -1 && PyErr_Occurred()) throw PythonError();
      check(i >= -t.size(0) && i < t.size(0), ErrorKind::index, "index ", i,
            " is out of bounds for dimension 0 with size ", t.size(0));
      return wrap(select_op({t, Dim(0), Dim(i)}));
    }
    Selection selection(t, index);
    if (selection.has_tensors()) return wrap(index_op({selection.view(), selection.indices()}));
    // x[...] is a new view, never x itself.
    if (selection.same_as_self()) return wrap(view_op({t, sizes_argument(t.sizes())}));
    return wrap(selection.view());
  });
}

/// The value with leading dims of size 1 taken away until it has no more dims than the destination.
Tensor without_leading_ones(const Tensor& value, int64_t dims) {
  int64_t extra = 0;
  while (value.dim() - extra > dims && value.size(extra) == 1) ++extra;
  if (extra == 0) return value;
  return view_op({value, sizes_argument(Dims(value.sizes().data() + extra, value.dim() - extra))});
}

void assign(const Tensor& self, PyObject* index, PyObject* value) {
  Selection selection(self, index);
  Scalar number;
  bool is_number = !is_tensor(value) && as_scalar(value, &number);
  if (is_number) {
    check(number.kind() != Scalar::Kind::complex || is_complex(self.dtype()), ErrorKind::runtime,
          "value cannot be converted to type ", self.dtype(), " without overflow");
  }
  Tensor source;
  if (is_tensor(value)) {
    source = unwrap(value);
  } else if (!is_number) {
    check(is_index_list(value), ErrorKind::type, "can't assign a ", type_name_of(value),
          " to a torch.", self.dtype(), " tensor");
    source = tensor_from_data(value, self.dtype());
  }
  const Tensor& view = selection.view();
  if (!selection.has_tensors()) {
    if (is_number && fill_op.exists()) return fill_op.in_place({view, Number(number)});
    if (is_number) source = scalar_tensor(number, self.dtype());
    return copy_op.in_place({view, without_leading_ones(source, view.dim())});
  }
  const OptionalTensorList& indices = selection.indices();
  bool single_mask = indices.size() == 1 && indices[0].dtype() == DType::boolean;
  if (is_number && single_mask && indices[0].dim() == view.dim() && masked_fill_op.exists()) {
    return masked_fill_op.in_place({view, indices[0], Number(number)});
  }
  if (is_number) source = scalar_tensor(number, self.dtype());
  index_put_op.in_place({view, indices, source, false});
}

int set_item(PyObject* self, PyObject* index, PyObject* value) {
  return guarded(
      [&] {
        check(value, ErrorKind::type, "Tensor does not support deleting items");
        assign(unwrap(self), index, value);
        return 0;
      },
      -1);
}

Py_ssize_t length(PyObject* self) {
  return guarded(
      [&]() -> Py_ssize_t {
        Tensor t = unwrap(self);
        check(t.dim() > 0, ErrorKind::type, "len() of a 0-d tensor");
        return t.size(0);
      },
      Py_ssize_t{-1});
}

}  // namespace

PyMappingMethods tensor_mapping = {
    .mp_length = length,
    .mp_subscript = get_item,
    .mp_ass_subscript = set_item,
};

}  // namespace flambeau::python
