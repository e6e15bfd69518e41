// What the backward pass needs of anomaly mode.
#pragma once

#include "flambeau/autograd/autograd.h"

namespace flambeau::autograd {

bool anomaly_mode_on();
/// Tells the user where the call was made whose backward failed.
void report_anomaly(const Node& node);

}  // namespace flambeau::autograd
