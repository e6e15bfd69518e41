// Tensors side by side, and apart again.
#include <algorithm>

#include "flambeau/base/error.h"
#include "flambeau/ops/typing.h"
#include "flambeau/ops/view.h"

namespace flambeau::ops {

namespace {

Tensor with_dims(const Tensor& x, int64_t rank) {
  Tensor y = x;
  if (rank >= 1 && y.dim() == 0) y = reshape(y, Sizes{Size(1)});
  if (rank >= 2 && y.dim() == 1) y = unsqueeze(y, 0);
  if (rank >= 3 && y.dim() == 2) y = unsqueeze(y, 2);
  return y;
}

TensorList all_with_dims(const TensorList& tensors, int64_t rank) {
  TensorList result;
  for (const Tensor& t : tensors) result.push_back(with_dims(t, rank));
  return result;
}

void check_some(const TensorList& tensors, const char* name) {
  check(!tensors.empty(), ErrorKind::runtime, name, " expects a non-empty TensorList");
}

/// Parts between the places, which may lie outside as those of slices may.
TensorList split_at(const Tensor& self, const DimList& places, int64_t dim) {
  TensorList parts;
  int64_t start = 0;
  for (int64_t place : places) {
    parts.push_back(slice(self, Dim(dim), std::optional<Size>(Size(start)),
                          std::optional<Size>(Size(place)), Size(1)));
    start = place;
  }
  parts.push_back(
      slice(self, Dim(dim), std::optional<Size>(Size(start)), std::optional<Size>(), Size(1)));
  return parts;
}

TensorList split_in(const Tensor& self, int64_t sections, int64_t dim, const char* name) {
  check(sections > 0, ErrorKind::runtime, name, ": number of sections must be larger than 0, got ",
        sections);
  int64_t size = self.size(dim), each = size / sections, more = size % sections, start = 0;
  TensorList parts;
  for (int64_t i = 0; i < sections; ++i) {
    int64_t length = each + (i < more ? 1 : 0);
    parts.push_back(narrow(self, Dim(dim), Size(start), Size(length)));
    start += length;
  }
  return parts;
}

TensorList split_evenly(const Tensor& self, int64_t sections, int64_t dim, const char* name) {
  check(sections > 0 && self.size(dim) % sections == 0, ErrorKind::runtime, name,
        ": attempting to split along dimension ", dim, ", but the size of the dimension ",
        self.size(dim), " is not divisible by the split_size ", sections, "!");
  return split_in(self, sections, dim, name);
}

}  // namespace

const Op<Tensor(const TensorList&)> hstack{
    "hstack(Tensor[] tensors) -> Tensor",
    R"(cat along the second dim, of 1-d tensors along the first.)",
    [](const TensorList& tensors) {
      check_some(tensors, "hstack");
      TensorList parts = all_with_dims(tensors, 1);
      return cat(parts, Dim(parts[0].dim() == 1 ? 0 : 1));
    },
    kFunction | kOut, BodyKind::direct};
const Op<Tensor(const TensorList&)> vstack{"vstack|row_stack(Tensor[] tensors) -> Tensor",
                                           R"(cat along the first dim, of 1-d tensors as rows.)",
                                           [](const TensorList& tensors) {
                                             check_some(tensors, "vstack");
                                             return cat(all_with_dims(tensors, 2), Dim(0));
                                           },
                                           kFunction | kOut, BodyKind::direct};
const Op<Tensor(const TensorList&)> dstack{"dstack(Tensor[] tensors) -> Tensor",
                                           R"(cat along the third dim.)",
                                           [](const TensorList& tensors) {
                                             check_some(tensors, "dstack");
                                             return cat(all_with_dims(tensors, 3), Dim(2));
                                           },
                                           kFunction | kOut, BodyKind::direct};
const Op<Tensor(const TensorList&)> column_stack{
    "column_stack(Tensor[] tensors) -> Tensor",
    R"(cat along the second dim, of 1-d and 0-d tensors as columns.)",
    [](const TensorList& tensors) {
      check_some(tensors, "column_stack");
      TensorList parts;
      for (const Tensor& t : tensors)
        parts.push_back(t.dim() <= 1 ? reshape(t, Sizes{Size(t.numel()), Size(1)}) : t);
      return cat(parts, Dim(1));
    },
    kFunction | kOut, BodyKind::direct};

const Op<Tensor(const Tensor&)> atleast_1d{
    "atleast_1d(Tensor self) -> Tensor", R"(With at least one dim.)",
    [](const Tensor& self) { return with_dims(self, 1); }, kFunction, BodyKind::direct};
const Op<TensorList(const TensorList&)> atleast_1d_list{
    "atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]", R"(All with at least one dim.)",
    [](const TensorList& tensors) { return all_with_dims(tensors, 1); }, kFunction,
    BodyKind::direct};
const Op<Tensor(const Tensor&)> atleast_2d{
    "atleast_2d(Tensor self) -> Tensor", R"(With at least two dims: new ones in front.)",
    [](const Tensor& self) { return with_dims(self, 2); }, kFunction, BodyKind::direct};
const Op<TensorList(const TensorList&)> atleast_2d_list{
    "atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]", R"(All with at least two dims.)",
    [](const TensorList& tensors) { return all_with_dims(tensors, 2); }, kFunction,
    BodyKind::direct};
const Op<Tensor(const Tensor&)> atleast_3d{
    "atleast_3d(Tensor self) -> Tensor", R"(With at least three dims: the third one behind.)",
    [](const Tensor& self) { return with_dims(self, 3); }, kFunction, BodyKind::direct};
const Op<TensorList(const TensorList&)> atleast_3d_list{
    "atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]", R"(All with at least three dims.)",
    [](const TensorList& tensors) { return all_with_dims(tensors, 3); }, kFunction,
    BodyKind::direct};

const Op<TensorList(const Tensor&, Dim, Dim)> tensor_split_sections{
    "tensor_split.sections(Tensor self, int sections, int dim=0) -> Tensor[]",
    R"(`sections` parts along `dim`, the first ones longer by one where the size cannot be divided.)",
    [](const Tensor& self, Dim sections, Dim dim) {
      check(self.dim() > 0, ErrorKind::runtime,
            "tensor_split: expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
      return split_in(self, sections, wrap_dim(dim, self.dim(), "tensor_split"), "tensor_split");
    },
    kFunction | kMethod, BodyKind::direct};
const Op<TensorList(const Tensor&, const DimList&, Dim)> tensor_split_indices{
    "tensor_split.indices(Tensor self, int[] indices, int dim=0) -> Tensor[]",
    R"(Parts between positions along `dim`.)",
    [](const Tensor& self, const DimList& indices, Dim dim) {
      check(self.dim() > 0, ErrorKind::runtime,
            "tensor_split: expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
      return split_at(self, indices, wrap_dim(dim, self.dim(), "tensor_split"));
    },
    kFunction | kMethod, BodyKind::direct};

#define FLAMBEAU_SPLIT(NAME, RANK, DIM)                                                            \
  const Op<TensorList(const Tensor&, Dim)> NAME##_sections{                                        \
      #NAME ".int(Tensor self, int sections) -> Tensor[]",                                         \
      R"(Equal parts along one dim. Errors: RuntimeError when the size cannot be divided.)",       \
      [](const Tensor& self, Dim sections) {                                                       \
        check(self.dim() >= RANK, ErrorKind::runtime, #NAME " requires a tensor with at least ",   \
              RANK, " dimension, but got a tensor with ", self.dim(), " dimensions!");             \
        return split_evenly(self, sections, DIM, #NAME);                                           \
      },                                                                                           \
      kFunction | kMethod, BodyKind::direct};                                                      \
  const Op<TensorList(const Tensor&, const DimList&)> NAME##_indices {                             \
    #NAME ".array(Tensor self, int[] indices) -> Tensor[]",                                        \
        R"(Parts between positions along one dim.)",                                               \
        [](const Tensor& self, const DimList& indices) {                                           \
          check(self.dim() >= RANK, ErrorKind::runtime, #NAME " requires a tensor with at least ", \
                RANK, " dimension, but got a tensor with ", self.dim(), " dimensions!");           \
          return split_at(self, indices, DIM);                                                     \
        },                                                                                         \
        kFunction | kMethod, BodyKind::direct                                                      \
  }

FLAMBEAU_SPLIT(hsplit, 1, (self.dim() == 1 ? 0 : 1));
FLAMBEAU_SPLIT(vsplit, 2, 0);
FLAMBEAU_SPLIT(dsplit, 3, 2);
#undef FLAMBEAU_SPLIT

}  // namespace flambeau::ops
