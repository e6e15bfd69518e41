// The allocator of CPU memory. Released blocks are kept by size class, because fresh pages cost
// more than most kernels: small blocks in lists of the thread, large ones in bins that all threads
// share.
#pragma once

#include "flambeau/tensor/device.h"

namespace flambeau::cpu {

/// The one allocator of the process; never destroyed, so that any object may release memory at
/// exit. Bytes in use are counted as asked for. With several threads the peak may be off by up to 1
/// MB a thread unless a limit is set.
Allocator& cpu_allocator();

}  // namespace flambeau::cpu
