// The format is that of NumPy Enhancement Proposal 1 and numpy.lib.format.
#include "flambeau/io/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "flambeau/base/error.h"
#include "flambeau/io/quote.h"

namespace flambeau::io {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kLargestHeader = 1024 * 1024;  // a shape of 64 dims needs about 1,500 bytes
constexpr size_t kMostDims = 64;                // as NumPy
constexpr size_t kMostNamesShown = 20;
constexpr std::string_view kExtension = ".npy";

struct TypeName {
  std::string_view dtype, code;
  size_t item_bytes, swap_bytes;  // complex numbers are swapped by halves
};
constexpr TypeName kTypes[] = {
    {"bool", "b1", 1, 1},      {"int8", "i1", 1, 1},        {"int16", "i2", 2, 2},
    {"int32", "i4", 4, 4},     {"int64", "i8", 8, 8},       {"uint8", "u1", 1, 1},
    {"uint16", "u2", 2, 2},    {"uint32", "u4", 4, 4},      {"uint64", "u8", 8, 8},
    {"float16", "f2", 2, 2},   {"float32", "f4", 4, 4},     {"float64", "f8", 8, 8},
    {"complex64", "c8", 8, 4}, {"complex128", "c16", 16, 8}};

const TypeName* find_type(std::string_view TypeName::* member, std::string_view value) {
  for (const TypeName& type : kTypes) {
    if (type.*member == value) return &type;
  }
  return nullptr;
}

std::string known_types() {
  std::string names;
  for (const TypeName& type : kTypes) append(names, text(names.empty() ? "" : ", ", type.dtype));
  return names;
}

// The header is a Python dict with three known keys, whose values are a string, True or False, and
// a tuple of integers.
class HeaderParser {
 public:
  HeaderParser(std::string_view header, const std::string& name) : rest_(header), name_(name) {}

  NpyHeader parse() {
    expect(take('{'), "a dict is expected");
    bool has_descr = false, has_order = false, has_shape = false;
    while (!take('}')) {
      std::string_view key = string();
      expect(take(':'), "':' is expected after ", quote_name(key));
      bool* seen = key == "descr"           ? &has_descr
                   : key == "fortran_order" ? &has_order
                   : key == "shape"         ? &has_shape
                                            : nullptr;
      expect(seen != nullptr, "unknown key ", quote_name(key),
             "; known are descr, fortran_order and shape");
      expect(!*seen, "the key ", key, " occurs more than once");
      *seen = true;
      if (seen == &has_descr) {
        descr();
      } else if (seen == &has_order) {
        result_.fortran_order = boolean();
      } else {
        shape();
      }
      if (take(',')) continue;
      expect(take('}'), "',' or '}' is expected");
      break;
    }
    skip_blanks();
    expect(rest_.empty(), "something follows the dict");
    expect(has_descr && has_order && has_shape, "the key ",
           !has_descr   ? "descr"
           : !has_order ? "fortran_order"
                        : "shape",
           " is missing");
    return std::move(result_);
  }

 private:
  template <class... Parts>
  void expect(bool ok, const Parts&... parts) const {
    check(ok, ErrorKind::runtime, "'", name_, "': npy header: ", parts...);
  }

  void skip_blanks() {
    size_t blanks = std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size());
    rest_.remove_prefix(blanks);
  }

  bool take(char c) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view string() {
    skip_blanks();
    expect(!rest_.empty() && (rest_.front() == '\'' || rest_.front() == '"'),
           "a string is expected");
    size_t end = rest_.find(rest_.front(), 1);
    expect(end != std::string_view::npos, "a string has no end");
    std::string_view value = rest_.substr(1, end - 1);
    expect(value.find('\\') == std::string_view::npos, "a string has an escape sequence");
    rest_.remove_prefix(end + 1);
    return value;
  }

  bool boolean() {
    skip_blanks();
    for (std::string_view word : {"True", "False"}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return word == "True";
    }
    expect(false, "fortran_order must be True or False");
    return false;
  }

  int64_t integer() {
    skip_blanks();
    int64_t value = 0;
    size_t digits = 0;
    for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
      bool overflow = __builtin_mul_overflow(value, int64_t{10}, &value) ||
                      __builtin_add_overflow(value, int64_t{rest_[digits] - '0'}, &value);
      expect(!overflow, "a size in shape is too large");
    }
    expect(digits > 0, "shape must be a tuple of integers that are not negative");
    rest_.remove_prefix(digits);
    if (!rest_.empty() && rest_.front() == 'L') rest_.remove_prefix(1);  // written by Python 2
    return value;
  }

  void shape() {
    expect(take('('), "shape must be a tuple");
    while (!take(')')) {
      result_.shape.push_back(integer());
      expect(result_.shape.size() <= kMostDims, "shape has more than ", kMostDims, " dims");
      if (take(',')) continue;
      // (3) is an integer in Python and no tuple.
      expect(take(')') && result_.shape.size() > 1, "shape must be a tuple");
      break;
    }
  }

  void descr() {
    skip_blanks();
    expect(rest_.empty() || rest_.front() != '[',
           "arrays with fields are not supported; save each field as an array of its own");
    std::string_view value = string();
    std::string_view code = value.substr(std::min<size_t>(1, value.size()));
    char order = value.empty() ? ' ' : value.front();
    expect(value != "|O", "the array holds Python objects, which would have to be unpickled; ",
           "convert it to a number type before saving");
    expect(code != "V2", "NumPy has no bfloat16 of its own and stores only its raw bytes; ",
           "save the array as float32, or in a safetensors file");
    const TypeName* type = find_type(&TypeName::code, code);
    expect(type != nullptr && (order == '<' || order == '>' || order == '|' || order == '='),
           "unknown dtype ", quote_name(value), "; known are ", known_types());
    expect(order != '|' || type->swap_bytes == 1, "the dtype ", quote_name(value),
           " does not say its byte order");
    result_.dtype = type->dtype;
    result_.item_bytes = type->item_bytes;
    result_.big_endian = order == '>' && type->swap_bytes > 1;
  }

  std::string_view rest_;
  const std::string& name_;
  NpyHeader result_;
};

std::string npy_header(const NpyArray& array) {
  check(array.dtype != "bfloat16", ErrorKind::value,
        "npy files have no bfloat16; convert the array to float32, or use a safetensors file");
  const TypeName* type = find_type(&TypeName::dtype, array.dtype);
  check(type != nullptr, ErrorKind::value, "npy files have no dtype ", quote_name(array.dtype),
        "; known are ", known_types());
  check(array.shape.size() <= kMostDims, ErrorKind::value, "npy files hold at most ", kMostDims,
        " dims; got ", array.shape.size());
  std::string sizes;
  size_t total = type->item_bytes;
  bool fits = true;
  for (int64_t size : array.shape) {
    fits = fits && size >= 0 && !__builtin_mul_overflow(total, static_cast<size_t>(size), &total);
    sizes += text(sizes.empty() ? "" : ", ", size);
  }
  check(fits && total == array.bytes, ErrorKind::value, "npy: ", array.bytes,
        " bytes do not fit shape ", array.shape, " of ", array.dtype);
  if (array.shape.size() == 1) sizes += ",";
  std::string dict = text("{'descr': '", type->swap_bytes == 1 ? "|" : "<", type->code,
                          "', 'fortran_order': False, 'shape': (", sizes, "), }");
  // Version 1.0: the magic, two bytes of version, two of length; elements begin at a multiple
  // of 64.
  constexpr size_t kPrefix = 10;
  size_t whole = (kPrefix + dict.size() + 1 + 63) / 64 * 64;
  dict.resize(whole - kPrefix - 1, ' ');
  dict += '\n';
  std::string head(kMagic);
  head +=
      {'\x01', '\x00', static_cast<char>(dict.size() & 0xFF), static_cast<char>(dict.size() >> 8)};
  return head + dict;
}

std::string_view elements_of(const NpyArray& array) {
  return {static_cast<const char*>(array.data), array.bytes};
}

void swap_byte_order(char* bytes, size_t size, size_t item) {
  for (size_t i = 0; i < size; i += item) std::reverse(bytes + i, bytes + i + item);
}

}  // namespace

NpyHeader parse_npy(std::string_view file, const std::string& name) {
  check(file.size() >= 10 && file.starts_with(kMagic), ErrorKind::runtime, "'", name,
        "' is no npy file: it does not begin with the format's mark");
  int major = static_cast<uint8_t>(file[6]), minor = static_cast<uint8_t>(file[7]);
  check(major >= 1 && major <= 3 && minor == 0, ErrorKind::runtime, "'", name, "': npy version ",
        major, ".", minor, " is unknown; known are 1.0, 2.0 and 3.0");
  size_t prefix = major == 1 ? 10 : 12;
  check(file.size() >= prefix, ErrorKind::runtime, "'", name, "': the npy file is truncated");
  size_t length = 0;
  std::memcpy(&length, file.data() + 8, prefix - 8);
  check(length <= kLargestHeader, ErrorKind::runtime, "'", name, "': the npy header gives itself ",
        length, " bytes; at most ", kLargestHeader, " are allowed");
  check(length <= file.size() - prefix, ErrorKind::runtime, "'", name, "': the npy header has ",
        length, " bytes, but only ", file.size() - prefix, " follow: the file is truncated");
  NpyHeader header = HeaderParser(file.substr(prefix, length), name).parse();
  header.offset = prefix + length;
  size_t total = header.item_bytes;
  bool overflow = false;
  // A zero anywhere makes an empty array, whatever the other sizes.
  bool empty = std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end();
  for (int64_t size : header.shape) {
    overflow = overflow || __builtin_mul_overflow(total, static_cast<size_t>(size), &total);
  }
  if (empty) total = 0;
  size_t present = file.size() - header.offset;
  check((empty || !overflow) && total <= present, ErrorKind::runtime, "'", name, "': shape ",
        header.shape, " of ", header.dtype, " needs more than the ", present,
        " bytes that follow the npy header: the file is truncated");
  header.bytes = total;
  return header;
}

void copy_npy_elements(const NpyHeader& header, std::string_view file, void* out) {
  const char* from = file.data() + header.offset;
  char* to = static_cast<char*>(out);
  if (header.bytes == 0) return;
  size_t rank = header.shape.size(), item = header.item_bytes;
  if (!header.fortran_order || rank < 2) {
    std::memcpy(to, from, header.bytes);
  } else {
    // An odometer over the row-major index; `at` follows it in the column-major elements.
    std::vector<size_t> stride(rank, item), index(rank, 0);
    for (size_t d = 1; d < rank; ++d) {
      stride[d] = stride[d - 1] * static_cast<size_t>(header.shape[d - 1]);
    }
    size_t at = 0;
    for (char* end = to + header.bytes; to != end; to += item) {
      std::memcpy(to, from + at, item);
      for (size_t d = rank; d-- > 0;) {
        at += stride[d];
        if (++index[d] < static_cast<size_t>(header.shape[d])) break;
        at -= stride[d] * index[d];
        index[d] = 0;
      }
    }
  }
  if (header.big_endian) {
    const TypeName* type = find_type(&TypeName::dtype, header.dtype);
    swap_byte_order(static_cast<char*>(out), header.bytes, type->swap_bytes);
  }
}

void write_npy(const std::string& path, const NpyArray& array) {
  std::string head = npy_header(array);
  write_file_atomically(path, {head, elements_of(array)});
}

void write_npz(const std::string& path, const std::vector<NpyArray>& arrays, bool compressed) {
  ZipWriter writer(compressed);
  std::vector<std::string_view> names;
  for (const NpyArray& array : arrays) {
    check(std::find(names.begin(), names.end(), array.name) == names.end(), ErrorKind::value,
          "npz: the name ", quote_name(array.name), " is given more than once");
    names.push_back(array.name);
    writer.add(text(array.name, kExtension), npy_header(array), elements_of(array));
  }
  writer.write(path);
}

NpzFile::NpzFile(const std::string& path) : path_(path), file_(path) {
  entries_ = parse_zip({file_.data(), file_.size()}, path);
  for (const ZipEntry& entry : entries_) {
    check(entry.name.ends_with(kExtension), ErrorKind::runtime, "'", path, "': member ",
          quote_name(entry.name), " of the npz file is no .npy file");
    names_.push_back(entry.name.substr(0, entry.name.size() - kExtension.size()));
  }
}

std::string_view NpzFile::read(const std::string& name, std::unique_ptr<char[]>& storage) const {
  auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) {
    std::string present;
    for (size_t i = 0; i < std::min(names_.size(), kMostNamesShown); ++i) {
      present += text(present.empty() ? "" : ", ", quote_name(names_[i]));
    }
    if (names_.size() > kMostNamesShown) present += ", ...";
    fail(ErrorKind::index, text("'", path_, "' has no array ", quote_name(name), "; it has ",
                                present.empty() ? "none" : present));
  }
  return read_zip_entry({file_.data(), file_.size()}, entries_[found - names_.begin()], path_,
                        storage);
}

}  // namespace flambeau::io
