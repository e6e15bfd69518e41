// A counted pointer to an object with retain() and release(), the size of a plain pointer.
#pragma once

#include <cstddef>
#include <utility>

namespace flambeau {

template <class T>
class Pointer {
 public:
  Pointer() = default;
  Pointer(std::nullptr_t) {}
  explicit Pointer(T* object) : object_(object) {
    if (object_) object_->retain();
  }
  Pointer(const Pointer& other) : Pointer(other.object_) {}
  Pointer(Pointer&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Pointer& operator=(Pointer other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Pointer() {
    if (object_) object_->release();
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Pointer& a, const Pointer& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

}  // namespace flambeau
