// Errors that callers can act on. Every check names what was given and what is allowed; the kind
// decides the Python exception type.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "flambeau/base/text.h"

namespace flambeau {

enum class ErrorKind {
  runtime,          ///< RuntimeError
  value,            ///< ValueError
  type,             ///< TypeError
  index,            ///< IndexError
  not_implemented,  ///< NotImplementedError
  out_of_memory,    ///< torch.OutOfMemoryError
  internal,         ///< RuntimeError that asks for a report: our bug, not the caller's
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  ErrorKind kind() const { return kind_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
};

[[noreturn]] void fail(ErrorKind kind, std::string message);

/// Throws Error(kind) with the concatenated parts unless `ok`. Parts are formatted only on failure.
template <class... Parts>
void check(bool ok, ErrorKind kind, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(kind, text(parts...));
}

/// A condition that only a defect of the library can break.
template <class... Parts>
void internal_check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(ErrorKind::internal, text("internal error: ", parts...));
}

}  // namespace flambeau
