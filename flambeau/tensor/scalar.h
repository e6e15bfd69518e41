// A Python number: bool, int, float or complex. Its value is data, its kind is structure.
#pragma once

#include <complex>
#include <cstdint>
#include <string>

#include "flambeau/tensor/dtype.h"

namespace flambeau {

class Scalar {
 public:
  enum class Kind : uint8_t { boolean, integer, real, complex };
  Scalar() : Scalar(int64_t{0}) {}
  Scalar(bool v) : kind_(Kind::boolean), integer_(v) {}
  Scalar(int v) : Scalar(static_cast<int64_t>(v)) {}
  Scalar(int64_t v) : kind_(Kind::integer), integer_(v) {}
  Scalar(double v) : kind_(Kind::real), real_(v) {}
  Scalar(std::complex<double> v) : kind_(Kind::complex), real_(v.real()), imag_(v.imag()) {}

  Kind kind() const { return kind_; }
  bool is_integral() const { return kind_ <= Kind::integer; }
  /// The type it has in promotion: bool, int64, the default float type or its complex partner.
  DType dtype() const;
  int64_t integer() const { return is_integral() ? integer_ : static_cast<int64_t>(real_); }
  double real() const { return is_integral() ? static_cast<double>(integer_) : real_; }
  double imag() const { return kind_ == Kind::complex ? imag_ : 0; }
  bool boolean() const { return is_integral() ? integer_ != 0 : real_ != 0 || imag() != 0; }

 private:
  Kind kind_;
  union {
    int64_t integer_;
    double real_;
  };
  double imag_ = 0;
};

void append(std::string& out, const Scalar& value);

}  // namespace flambeau
