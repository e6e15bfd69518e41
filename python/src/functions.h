// Functions of the package that are no operators.
#pragma once

#include "object.h"

namespace flambeau::python {

extern PyMethodDef plain_functions[];     // functions.cpp
extern PyMethodDef file_functions[];      // file_functions.cpp
extern PyMethodDef deferred_functions[];  // deferred_functions.cpp

}  // namespace flambeau::python
