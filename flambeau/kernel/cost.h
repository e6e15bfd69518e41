// What computing a value costs, for decisions between computing again and keeping.
#pragma once

#include "flambeau/graph/graph.h"

namespace flambeau::kernel {

/// Instructions a vector of the node's result takes, operands not counted; 0 for what is not
/// elementwise.
int cost(const graph::Graph& graph, const graph::Node& node);

}  // namespace flambeau::kernel
