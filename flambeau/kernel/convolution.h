// Convolutions: products whose left operand is the weight (or the result's cotangent) and whose
// right operand are windows of the input, read where they lie. See prim/convolution.cpp for what
// the operands are.
#pragma once

#include <memory>
#include <vector>

#include "flambeau/kernel/product.h"

namespace flambeau::kernel {

/// What is computed: a convolution, or the cotangent of its weight with the input's channels as
/// columns, or that with the result's channels as columns.
enum class ConvolutionForm : uint8_t { forward, weight_by_inner, weight_by_outer };

struct ConvolutionSpec {
  ProductSpec product;
  ConvolutionForm form;
  bool pairs;  // terms in the order of bfloat16 pairs, the odd one first; denormal sums flushed
  std::vector<int64_t> steps, dilations, taps;  // by spatial dim

  size_t rank() const { return steps.size(); }
  /// Leading dims of the result, before that of the rows.
  size_t batch_dims() const;
  /// Dims of the result behind that of the rows: 1 or 2.
  size_t column_dims() const;
  /// Of the weight's cotangent: taps along the last dim are neighbours and make columns.
  bool merges_taps() const { return steps.back() == 1 && dilations.back() == 1; }
};

enum ConvolutionSlot : int {
  // Sizes, given: [images, groups, inner, phases..., window...] is the input of a convolution.
  kImages = kProductSlots,
  kGroups,
  kInner,
  kOuter,
  kWindow,                // up to 3
  kResult = kWindow + 3,  // up to 3
  // Filled in by run().
  kLine = kResult + 3,  // columns come in lines of so many,
  kLineUsed,            // of which the first are results
  kRowPositions,        // pointer: element number of each row of the left operand
  kLeftPositions,
  kRightPositions,  // pointers: element numbers by contracted position
  kBatchPositions,  // pointer: those of each product's operands, in pairs
  kBatchExtents,    // up to 4
  kConvolutionSlots = kBatchExtents + 4,
};

std::shared_ptr<const ProductPhases> build_convolution(loop::Module& module,
                                                       const ConvolutionSpec& spec,
                                                       const Epilogue& epilogue);

}  // namespace flambeau::kernel
