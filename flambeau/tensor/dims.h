// A short list of int64: sizes, strides, dims. Six fit without the heap.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

namespace flambeau {

class Dims {
 public:
  Dims() = default;
  explicit Dims(int64_t count, int64_t value = 0) {
    resize(count);
    for (int64_t i = 0; i < count; ++i) data()[i] = value;
  }
  Dims(std::initializer_list<int64_t> values) {
    assign(values.begin(), static_cast<int64_t>(values.size()));
  }
  Dims(const std::vector<int64_t>& values) {
    assign(values.data(), static_cast<int64_t>(values.size()));
  }
  Dims(const int64_t* values, int64_t count) { assign(values, count); }
  Dims(const Dims& other) { assign(other.data(), other.size()); }
  Dims(Dims&& other) noexcept { take(other); }
  Dims& operator=(const Dims& other) {
    if (this != &other) assign(other.data(), other.size());
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    if (this != &other) {
      delete[] heap_;
      take(other);
    }
    return *this;
  }
  ~Dims() { delete[] heap_; }

  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t* data() { return heap_ ? heap_ : inline_; }
  const int64_t* data() const { return heap_ ? heap_ : inline_; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + size_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  int64_t& operator[](int64_t i) { return data()[i]; }
  int64_t operator[](int64_t i) const { return data()[i]; }
  int64_t back() const { return data()[size_ - 1]; }

  void resize(int64_t count) {  // keeps the values, new ones are undefined
    if (count > capacity_) {
      auto* grown = new int64_t[static_cast<size_t>(count) * 2];
      std::memcpy(grown, data(), static_cast<size_t>(size_) * sizeof(int64_t));
      delete[] heap_;
      heap_ = grown;
      capacity_ = static_cast<int32_t>(count) * 2;
    }
    size_ = static_cast<int32_t>(count);
  }
  void push_back(int64_t value) {
    resize(size_ + 1);
    data()[size_ - 1] = value;
  }
  void insert(int64_t at, int64_t value) {
    resize(size_ + 1);
    std::memmove(data() + at + 1, data() + at,
                 static_cast<size_t>(size_ - 1 - at) * sizeof(int64_t));
    data()[at] = value;
  }
  void erase(int64_t at) {
    std::memmove(data() + at, data() + at + 1,
                 static_cast<size_t>(size_ - 1 - at) * sizeof(int64_t));
    --size_;
  }
  std::vector<int64_t> vector() const { return {begin(), end()}; }

  friend bool operator==(const Dims& a, const Dims& b) {
    return a.size_ == b.size_ &&
           std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size_) * sizeof(int64_t)) == 0;
  }

 private:
  void assign(const int64_t* values, int64_t count) {
    resize(count);
    if (count) std::memcpy(data(), values, static_cast<size_t>(count) * sizeof(int64_t));
  }
  void take(Dims& other) {
    heap_ = other.heap_;
    size_ = other.size_;
    capacity_ = other.capacity_;
    std::memcpy(inline_, other.inline_, sizeof inline_);
    other.heap_ = nullptr;
    other.size_ = 0;
    other.capacity_ = kInline;
  }

  static constexpr int32_t kInline = 6;
  int64_t inline_[kInline];
  int64_t* heap_ = nullptr;
  int32_t size_ = 0;
  int32_t capacity_ = kInline;
};

void append(std::string& out, const Dims& dims);  // "[2, 3]"

}  // namespace flambeau
