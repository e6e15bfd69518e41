#include "flambeau/base/error.h"

namespace flambeau {

void fail(ErrorKind kind, std::string message) { throw Error(kind, std::move(message)); }

}  // namespace flambeau
