#include "flambeau/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "flambeau/base/error.h"
#include "flambeau/base/files.h"
#include "flambeau/io/quote.h"

namespace flambeau::io {

namespace {

static_assert(std::endian::native == std::endian::little);

// The format's own limit, so that a damaged length is found before anything is allocated.
constexpr uint64_t kLargestHeader = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

struct ItemSize {
  std::string_view dtype;
  size_t bytes;
};
constexpr ItemSize kItemSizes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
    {"F32", 4},  {"I64", 8}, {"U64", 8}, {"F64", 8},     {"C64", 8}};

std::optional<size_t> item_bytes(std::string_view dtype) {
  for (const ItemSize& item : kItemSizes) {
    if (item.dtype == dtype) return item.bytes;
  }
  return std::nullopt;
}

std::string known_dtypes() {
  std::string names;
  for (const ItemSize& item : kItemSizes)
    append(names, text(names.empty() ? "" : ", ", item.dtype));
  return names;
}

std::optional<size_t> total_bytes(const std::vector<int64_t>& shape, size_t item) {
  size_t total = item;
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(total, static_cast<size_t>(size), &total)) return std::nullopt;
  }
  return total;
}

// Takes the parser's events. The header is an object of objects whose members are a string, an
// array of integers and a pair of integers; whatever else comes is an error where it comes. A tree
// would lose duplicate names.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(std::string_view file, const std::string& path) : file_(file), path_(path) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(size_t) override {
    if (depth_ == 0) {
      depth_ = 1;
      return true;
    }
    expect(depth_ == 1, "an object where ", expected(), " is expected");
    depth_ = 2;
    has_dtype_ = has_shape_ = has_offsets_ = false;
    entry_ = {};
    entry_.name = name_;
    return true;
  }

  bool key(std::string& name) override {
    if (depth_ == 1) {
      name_ = name;
      field_.clear();
      expect(names_.insert(name).second, "the name occurs more than once");
    } else if (name_ == kMetadata) {
      field_ = name;
      expect(metadata_names_.insert(name).second, "the key ", quote_name(name),
             " occurs more than once");
    } else {
      field_ = name;
      bool* seen = name == "dtype"          ? &has_dtype_
                   : name == "shape"        ? &has_shape_
                   : name == "data_offsets" ? &has_offsets_
                                            : nullptr;
      expect(seen != nullptr, "unknown member ", quote_name(name),
             "; an entry has dtype, shape and data_offsets");
      expect(!*seen, "the member ", name, " occurs more than once");
      *seen = true;
    }
    return true;
  }

  bool end_object() override {
    if (depth_ == 1) {
      depth_ = 0;
      return true;
    }
    depth_ = 1;
    if (name_ != kMetadata) add_entry();
    return true;
  }

  bool start_array(size_t) override {
    expect(depth_ == 2 && name_ != kMetadata && field_ != "dtype", "an array where ", expected(),
           " is expected");
    depth_ = 3;
    offsets_.clear();
    return true;
  }

  bool end_array() override {
    depth_ = 2;
    if (field_ != "data_offsets") return true;
    expect(offsets_.size() == 2, "data_offsets has ", offsets_.size(), " members; it needs 2");
    return true;
  }

  bool string(std::string& value) override {
    if (depth_ == 2 && name_ == kMetadata) {
      header_.metadata.emplace_back(field_, value);
    } else {
      expect(depth_ == 2 && field_ == "dtype", "a string where ", expected(), " is expected");
      entry_.dtype = value;
    }
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    expect(depth_ == 3, "a number where ", expected(), " is expected");
    if (field_ == "shape") {
      expect(value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()), "the size ",
             value, " in shape is too large");
      entry_.shape.push_back(static_cast<int64_t>(value));
    } else {
      offsets_.push_back(value);
    }
    return true;
  }

  bool number_integer(int64_t value) override { return reject(text("the number ", value)); }
  bool number_float(double, const std::string&) override { return reject("a fraction"); }
  bool boolean(bool value) override { return reject(text(value)); }
  bool null() override { return reject("null"); }
  bool binary(binary_t&) override { return reject("binary data"); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    fail(ErrorKind::runtime,
         text("'", path_, "': the safetensors header is not JSON in UTF-8 at byte ", position));
  }

 private:
  template <class... Parts>
  void expect(bool ok, const Parts&... parts) const {
    if (ok) return;
    fail(ErrorKind::runtime,
         text("'", path_, "': safetensors entry ", quote_name(name_), ": ", parts...));
  }

  bool reject(const std::string& given) {
    expect(false, given, " where ", expected(), " is expected");
    return false;
  }

  const char* expected() const {
    if (depth_ == 0) return "the header's object";
    if (depth_ == 1) return "an object";
    if (depth_ == 3) return "an integer that is not negative";
    if (name_ == kMetadata || field_ == "dtype") return "a string";
    return "an array of integers";
  }

  void add_entry() {
    expect(has_dtype_ && has_shape_ && has_offsets_, "the member ",
           !has_dtype_   ? "dtype"
           : !has_shape_ ? "shape"
                         : "data_offsets",
           " is missing");
    auto item = item_bytes(entry_.dtype);
    expect(item.has_value(), "unknown dtype ", quote_name(entry_.dtype), "; known are ",
           known_dtypes());
    auto total = total_bytes(entry_.shape, *item);
    expect(total.has_value(), "the shape ", entry_.shape, " has more than 2^64 bytes");
    expect(offsets_[0] <= offsets_[1] && offsets_[1] <= file_.size(), "data_offsets ", offsets_,
           " do not lie within the file's ", file_.size(), " bytes");
    expect(offsets_[1] - offsets_[0] == *total, "data_offsets ", offsets_, " hold ",
           offsets_[1] - offsets_[0], " bytes; shape ", entry_.shape, " of ", entry_.dtype,
           " needs ", *total);
    entry_.offset = offsets_[0];
    entry_.bytes = *total;
    header_.entries.push_back(std::move(entry_));
  }

  std::string_view file_;
  const std::string& path_;
  SafetensorsHeader header_;
  int depth_ = 0;
  std::string name_, field_;
  std::unordered_set<std::string> names_, metadata_names_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  SafetensorsEntry entry_;
  std::vector<uint64_t> offsets_;
};

// The tensors' bytes must cover the rest of the file, each byte once.
void check_layout(const SafetensorsHeader& header, size_t data_bytes, const std::string& path) {
  std::vector<const SafetensorsEntry*> order;
  for (const SafetensorsEntry& entry : header.entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) {
    return a->offset != b->offset ? a->offset < b->offset : a->bytes < b->bytes;
  });
  size_t end = 0;
  for (const SafetensorsEntry* entry : order) {
    check(entry->offset >= end, ErrorKind::runtime, "'", path, "': safetensors entry ",
          quote_name(entry->name), ": its bytes from ", entry->offset,
          " overlap those of another entry, which end at ", end);
    check(entry->offset == end, ErrorKind::runtime, "'", path, "': safetensors entry ",
          quote_name(entry->name), ": its bytes begin at ", entry->offset,
          ", but the entry before ends at ", end);
    end += entry->bytes;
  }
  check(end == data_bytes, ErrorKind::runtime, "'", path, "': the safetensors entries have ", end,
        " bytes, but the file has ", data_bytes, " after the header",
        end > data_bytes ? ": it is truncated" : "");
}

}  // namespace

size_t safetensors_item_bytes(std::string_view dtype) {
  auto bytes = item_bytes(dtype);
  check(bytes.has_value(), ErrorKind::value, "safetensors has no dtype ", quote_name(dtype),
        "; known are ", known_dtypes());
  return *bytes;
}

SafetensorsHeader parse_safetensors(std::string_view file, const std::string& path) {
  check(file.size() >= 8, ErrorKind::runtime, "'", path, "' has ", file.size(),
        " bytes, too few for a safetensors file");
  uint64_t length;
  std::memcpy(&length, file.data(), sizeof length);
  check(length <= kLargestHeader, ErrorKind::runtime, "'", path,
        "' is no safetensors file: it gives its header ", length, " bytes; at most ",
        kLargestHeader, " are allowed");
  check(length <= file.size() - 8, ErrorKind::runtime, "'", path, "': the safetensors header has ",
        length, " bytes, but the file has ", file.size() - 8, " after the length: it is truncated");
  std::string_view json = file.substr(8, length);
  check(!json.empty() && json.front() == '{', ErrorKind::runtime, "'", path,
        "' is no safetensors file: the header does not begin with '{'");
  HeaderReader reader(file, path);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  SafetensorsHeader header = reader.take();
  check_layout(header, file.size() - 8 - length, path);
  for (SafetensorsEntry& entry : header.entries) entry.offset += 8 + length;
  return header;
}

void write_safetensors(const std::string& path, const std::vector<SafetensorsTensor>& tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::vector<const SafetensorsTensor*> order;
  std::unordered_set<std::string> names{kMetadata};
  for (const SafetensorsTensor& tensor : tensors) {
    check(names.insert(tensor.name).second, ErrorKind::value, "write_safetensors: the name ",
          quote_name(tensor.name),
          tensor.name == kMetadata ? " is reserved" : " is given more than once");
    size_t item = safetensors_item_bytes(tensor.dtype);
    for (int64_t size : tensor.shape) {
      check(size >= 0, ErrorKind::value, "write_safetensors: ", quote_name(tensor.name),
            " has the shape ", tensor.shape);
    }
    auto total = total_bytes(tensor.shape, item);
    check(total.has_value() && *total == tensor.bytes, ErrorKind::value,
          "write_safetensors: ", quote_name(tensor.name), " has ", tensor.bytes,
          " bytes, which do not fit shape ", tensor.shape, " of ", tensor.dtype);
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) {
    size_t item_a = safetensors_item_bytes(a->dtype), item_b = safetensors_item_bytes(b->dtype);
    return item_a != item_b ? item_a > item_b : a->name < b->name;
  });

  auto encoded = [](const std::string& value) {
    try {
      return nlohmann::json(value).dump();
    } catch (const nlohmann::json::exception&) {
      fail(ErrorKind::value, text("write_safetensors: ", quote_name(value), " is not UTF-8"));
    }
  };
  std::string json;
  std::unordered_set<std::string> keys;
  for (const auto& [key, value] : metadata) {
    check(keys.insert(key).second, ErrorKind::value, "write_safetensors: the metadata key ",
          quote_name(key), " is given more than once");
    json += text(json.empty() ? "{" : ",", encoded(key), ":", encoded(value));
  }
  if (!metadata.empty()) json = text("\"", kMetadata, "\":", json, "}");
  std::vector<std::string_view> parts(1);
  size_t offset = 0;
  for (const SafetensorsTensor* tensor : order) {
    if (!json.empty()) json += ",";
    json += text(encoded(tensor->name), ":{\"dtype\":\"", tensor->dtype, "\",\"shape\":[");
    for (size_t i = 0; i < tensor->shape.size(); ++i) {
      json += text(i > 0 ? "," : "", tensor->shape[i]);
    }
    json += text("],\"data_offsets\":[", offset, ",", offset + tensor->bytes, "]}");
    offset += tensor->bytes;
    parts.emplace_back(static_cast<const char*>(tensor->data), tensor->bytes);
  }
  json = "{" + json + "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');  // the tensors' bytes begin aligned
  check(json.size() <= kLargestHeader, ErrorKind::value,
        "write_safetensors: the header would have ", json.size(), " bytes; at most ",
        kLargestHeader, " are allowed");
  uint64_t length = json.size();
  std::string head(sizeof length, '\0');
  std::memcpy(head.data(), &length, sizeof length);
  head += json;
  parts[0] = head;
  write_file_atomically(path, parts);
}

}  // namespace flambeau::io
