// Products of matrices: the template from which a kernel is made for an operand type and an
// epilogue.
#pragma once

#include <memory>

#include "flambeau/kernel/product.h"

namespace flambeau::kernel {

enum MatmulSlot : int {
  kLeftStrides = kProductSlots,      // of A by batch, m, k, in elements
  kRightStrides = kLeftStrides + 3,  // of B by batch, k, n
  kPanels = kRightStrides + 3,       // how B is read; this and the next are filled in by run()
  kTileStride,
  kChainStride,  // between column tiles of B and along k inside a tile, in elements
  kMatmulSlots,
};

/// Adds the functions of a product to `module`. The result's dims are batch, row, column.
std::shared_ptr<const ProductPhases> build_matmul(loop::Module& module, const ProductSpec& spec,
                                                  const Epilogue& epilogue);

}  // namespace flambeau::kernel
