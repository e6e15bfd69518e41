// flambeau.Generator: a seed and the number of random values drawn under it.
#pragma once

#include "flambeau/run/random.h"
#include "object.h"

namespace flambeau::python {

bool is_generator(PyObject* object);
Generator& generator_of(PyObject* object);

void add_generator_type(PyObject* module);

}  // namespace flambeau::python
