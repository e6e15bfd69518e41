// Field layouts are those of PKWARE's APPNOTE.TXT 6.3.10; section numbers below refer to it.
#include "flambeau/io/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <unordered_set>

#include "flambeau/base/error.h"
#include "flambeau/base/files.h"
#include "flambeau/io/quote.h"

namespace flambeau::io {

namespace {

constexpr uint32_t kLocalSignature = 0x04034b50;      // 4.3.7
constexpr uint32_t kDirectorySignature = 0x02014b50;  // 4.3.12
constexpr uint32_t kEndSignature = 0x06054b50;        // 4.3.16
constexpr uint32_t kEnd64Signature = 0x06064b50;      // 4.3.14
constexpr uint32_t kLocator64Signature = 0x07064b50;  // 4.3.15
constexpr size_t kLocalBytes = 30, kDirectoryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                 kLocator64Bytes = 20;
constexpr uint16_t kZip64Extra = 1;      // 4.5.3
constexpr uint16_t kEncrypted = 1 << 0;  // 4.4.4
constexpr uint16_t kUtf8Name = 1 << 11;
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr uint32_t kSaturated = 0xFFFFFFFF;  // the value is in the zip64 field
constexpr uint16_t kDate = 1 << 5 | 1;       // 1980-01-01: the same content gives the same file
// Deflate stores at most 258 bytes in 2 bits, which is 1032 bytes a byte (RFC 1951, 3.2.5).
constexpr size_t kLargestRatio = 1032;

template <class T>
T load(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void store(std::string& out, std::type_identity_t<T> value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class... Parts>
void check_file(bool ok, const std::string& path, const Parts&... parts) {
  check(ok, ErrorKind::runtime, "'", path, "': zip archive: ", parts...);
}

bool fits(std::string_view file, uint64_t at, uint64_t bytes) {
  return at <= file.size() && bytes <= file.size() - at;
}

struct Directory {
  uint64_t members, bytes, offset;
};

Directory find_directory(std::string_view file, const std::string& path) {
  check_file(file.size() >= kEndBytes, path, "too short: ", file.size(), " bytes");
  // The end record is followed by a comment of at most 64 KiB.
  size_t lowest = file.size() - std::min<size_t>(file.size(), kEndBytes + 0xFFFF);
  size_t at = file.size() - kEndBytes;
  while (load<uint32_t>(file, at) != kEndSignature ||
         at + kEndBytes + load<uint16_t>(file, at + 20) != file.size()) {
    check_file(at > lowest, path, "the directory is missing: no zip archive, or truncated");
    --at;
  }
  Directory found{load<uint16_t>(file, at + 10), load<uint32_t>(file, at + 12),
                  load<uint32_t>(file, at + 16)};
  uint64_t disk = load<uint16_t>(file, at + 4);
  uint64_t end = at;
  if (at >= kLocator64Bytes && load<uint32_t>(file, at - kLocator64Bytes) == kLocator64Signature) {
    uint64_t at64 = load<uint64_t>(file, at - kLocator64Bytes + 8);
    check_file(fits(file, at64, kEnd64Bytes) && load<uint32_t>(file, at64) == kEnd64Signature, path,
               "the zip64 end record is not at ", at64);
    disk = load<uint32_t>(file, at64 + 16);
    found = {load<uint64_t>(file, at64 + 32), load<uint64_t>(file, at64 + 40),
             load<uint64_t>(file, at64 + 48)};
    end = at64;
  }
  check_file(disk == 0, path, "it is a part of an archive in several files");
  check_file(found.offset <= end && found.bytes <= end - found.offset, path, "the directory of ",
             found.bytes, " bytes at ", found.offset, " does not lie within the file");
  check_file(found.members <= found.bytes / kDirectoryBytes, path, "the directory of ", found.bytes,
             " bytes cannot hold ", found.members, " members");
  return found;
}

// Replaces saturated values by those of the zip64 field, which has only them, in this order.
void read_zip64(std::string_view extra, uint64_t& bytes, uint64_t& compressed, uint64_t& local,
                const std::string& name, const std::string& path) {
  if (bytes != kSaturated && compressed != kSaturated && local != kSaturated) return;
  while (extra.size() >= 4) {
    uint16_t kind = load<uint16_t>(extra, 0), size = load<uint16_t>(extra, 2);
    extra.remove_prefix(4);
    if (size > extra.size()) break;
    if (kind == kZip64Extra) {
      std::string_view field = extra.substr(0, size);
      for (uint64_t* value : {&bytes, &compressed, &local}) {
        if (*value != kSaturated) continue;
        check_file(field.size() >= 8, path, "member ", quote_name(name),
                   ": the zip64 field is too short");
        *value = load<uint64_t>(field, 0);
        field.remove_prefix(8);
      }
      return;
    }
    extra.remove_prefix(size);
  }
  check_file(false, path, "member ", quote_name(name), ": the zip64 field is missing");
}

struct Extent {
  uint64_t begin, end;
  size_t entry;
};

}  // namespace

std::vector<ZipEntry> parse_zip(std::string_view file, const std::string& path) {
  Directory directory = find_directory(file, path);
  std::string_view rest = file.substr(directory.offset, directory.bytes);
  std::vector<ZipEntry> entries;
  std::vector<Extent> extents;
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < directory.members; ++i) {
    check_file(rest.size() >= kDirectoryBytes && load<uint32_t>(rest, 0) == kDirectorySignature,
               path, "the directory's record ", i, " is damaged");
    uint16_t flags = load<uint16_t>(rest, 8), method = load<uint16_t>(rest, 10);
    size_t name_bytes = load<uint16_t>(rest, 28), extra_bytes = load<uint16_t>(rest, 30);
    size_t record = kDirectoryBytes + name_bytes + extra_bytes + load<uint16_t>(rest, 32);
    check_file(record <= rest.size(), path, "the directory's record ", i, " is truncated");
    ZipEntry entry;
    entry.name = rest.substr(kDirectoryBytes, name_bytes);
    entry.checksum = load<uint32_t>(rest, 16);
    uint64_t compressed = load<uint32_t>(rest, 20), bytes = load<uint32_t>(rest, 24);
    uint64_t local = load<uint32_t>(rest, 42);
    read_zip64(rest.substr(kDirectoryBytes + name_bytes, extra_bytes), bytes, compressed, local,
               entry.name, path);
    rest.remove_prefix(record);

    auto check_entry = [&](bool ok, const auto&... parts) {
      check_file(ok, path, "member ", quote_name(entry.name), ": ", parts...);
    };
    check_entry(names.insert(entry.name).second, "the name occurs more than once");
    check_entry((flags & kEncrypted) == 0, "it is encrypted");
    check_entry(method == kStored || method == kDeflated, "unknown compression method ", method,
                "; known are 0 (stored) and 8 (deflated)");
    check_entry(fits(file, local, kLocalBytes) && load<uint32_t>(file, local) == kLocalSignature,
                "no member begins at ", local);
    uint64_t begin =
        local + kLocalBytes + load<uint16_t>(file, local + 26) + load<uint16_t>(file, local + 28);
    check_entry(fits(file, begin, compressed) && begin + compressed <= directory.offset, "its ",
                compressed, " bytes at ", begin, " do not lie before the directory");
    entry.deflated = method == kDeflated;
    check_entry(entry.deflated || bytes == compressed, "stored, but its sizes are ", bytes, " and ",
                compressed);
    check_entry(!entry.deflated || bytes / kLargestRatio <= compressed, compressed,
                " compressed bytes cannot hold ", bytes);
    entry.offset = begin;
    entry.compressed_bytes = compressed;
    entry.bytes = bytes;
    extents.push_back({local, begin + compressed, entries.size()});
    entries.push_back(std::move(entry));
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i) {
    check_file(extents[i].begin >= extents[i - 1].end, path, "members ",
               quote_name(entries[extents[i - 1].entry].name), " and ",
               quote_name(entries[extents[i].entry].name), " overlap");
  }
  return entries;
}

namespace {

// zlib counts in 32 bits: the next portion of what is left.
uInt portion(size_t left) {
  return static_cast<uInt>(std::min<size_t>(left, std::numeric_limits<uInt>::max()));
}

Bytef* zlib_bytes(const char* bytes) {
  return const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes));
}

// False unless the input is one complete deflate stream of exactly `bytes` bytes.
bool inflate_exactly(std::string_view input, char* out, size_t bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  size_t in_left = input.size(), out_left = bytes;
  char none = 0;  // zlib wants an output even where nothing is left to write
  int code = Z_OK;
  while (code == Z_OK) {
    uInt in_now = portion(in_left), out_now = portion(out_left);
    stream.next_in = zlib_bytes(input.data() + (input.size() - in_left));
    stream.avail_in = in_now;
    stream.next_out = zlib_bytes(bytes > 0 ? out + (bytes - out_left) : &none);
    stream.avail_out = out_now;
    code = inflate(&stream, Z_NO_FLUSH);
    in_left -= in_now - stream.avail_in;
    out_left -= out_now - stream.avail_out;
  }
  inflateEnd(&stream);
  return code == Z_STREAM_END && in_left == 0 && out_left == 0;
}

uint32_t checksum(std::string_view head, std::string_view body) {
  uLong value = 0;
  for (std::string_view part : {head, body}) {
    // At a null pointer zlib forgets what came before.
    if (!part.empty()) value = crc32_z(value, zlib_bytes(part.data()), part.size());
  }
  return static_cast<uint32_t>(value);
}

std::string deflated(std::string_view head, std::string_view body) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    throw std::bad_alloc();
  }
  std::string out;
  char buffer[32 * 1024];
  auto feed = [&](std::string_view input, int last_flush) {
    do {
      uInt now = portion(input.size());
      stream.next_in = zlib_bytes(input.data());
      stream.avail_in = now;
      input.remove_prefix(now);
      do {
        stream.next_out = zlib_bytes(buffer);
        stream.avail_out = sizeof buffer;
        deflate(&stream, input.empty() ? last_flush : Z_NO_FLUSH);
        out.append(buffer, sizeof buffer - stream.avail_out);
      } while (stream.avail_out == 0);
    } while (!input.empty());
  };
  feed(head, Z_NO_FLUSH);
  feed(body, Z_FINISH);
  deflateEnd(&stream);
  return out;
}

}  // namespace

std::string_view read_zip_entry(std::string_view file, const ZipEntry& entry,
                                const std::string& path, std::unique_ptr<char[]>& storage) {
  std::string_view content = file.substr(entry.offset, entry.compressed_bytes);
  if (entry.deflated) {
    bool good = false;
    try {
      storage = std::make_unique_for_overwrite<char[]>(entry.bytes);
      good = inflate_exactly(content, storage.get(), entry.bytes);
    } catch (const std::bad_alloc&) {
      fail(ErrorKind::out_of_memory, text("'", path, "': no memory for the ", entry.bytes,
                                          " bytes of member ", quote_name(entry.name)));
    }
    check_file(good, path, "member ", quote_name(entry.name),
               ": the compressed data is damaged or has another size than ", entry.bytes);
    content = {storage.get(), entry.bytes};
  }
  check_file(checksum(content, {}) == entry.checksum, path, "member ", quote_name(entry.name),
             ": the checksum does not match: the data is damaged");
  return content;
}

void ZipWriter::add_part(std::string owned, std::string_view borrowed) {
  offset_ += owned.size() + borrowed.size();
  parts_.push_back({std::move(owned), borrowed});
}

void ZipWriter::add(const std::string& name, std::string head, std::string_view body) {
  check(name.size() <= 0xFFFF, ErrorKind::value,
        "a zip member's name has at most 65535 bytes; got ", name.size());
  uint64_t local = offset_, bytes = head.size() + body.size();
  uint32_t sum = checksum(head, body);
  uint16_t method = compressed_ ? kDeflated : kStored;
  if (compressed_) {
    head = deflated(head, body);
    body = {};
  }
  uint64_t compressed = head.size() + body.size();
  bool large = bytes >= kSaturated || compressed >= kSaturated;
  auto saturated = [](uint64_t value, bool in_field) {
    return in_field ? kSaturated : static_cast<uint32_t>(value);
  };

  // What local and directory record have in common, 4.3.7 from "version needed" to "name length".
  std::string common;
  store<uint16_t>(common, 45);  // version needed: zip64
  store<uint16_t>(common, kUtf8Name);
  store<uint16_t>(common, method);
  store<uint16_t>(common, 0);  // time
  store<uint16_t>(common, kDate);
  store<uint32_t>(common, sum);
  store<uint32_t>(common, saturated(compressed, large));
  store<uint32_t>(common, saturated(bytes, large));
  store<uint16_t>(common, static_cast<uint16_t>(name.size()));

  std::string sizes;
  if (large) {
    store<uint64_t>(sizes, bytes);
    store<uint64_t>(sizes, compressed);
  }
  auto append_extra = [&](std::string& out, const std::string& field) {
    if (field.empty()) return;
    store<uint16_t>(out, kZip64Extra);
    store<uint16_t>(out, static_cast<uint16_t>(field.size()));
    out += field;
  };
  auto extra_bytes = [](const std::string& field) {
    return static_cast<uint16_t>(field.empty() ? 0 : field.size() + 4);
  };

  std::string record;
  store<uint32_t>(record, kLocalSignature);
  record += common;
  store<uint16_t>(record, extra_bytes(sizes));
  record += name;
  append_extra(record, sizes);

  std::string field = sizes;
  bool far = local >= kSaturated;
  if (far) store<uint64_t>(field, local);
  store<uint32_t>(directory_, kDirectorySignature);
  store<uint16_t>(directory_, 45);  // made by
  directory_ += common;
  store<uint16_t>(directory_, extra_bytes(field));
  store<uint16_t>(directory_, 0);  // comment length
  store<uint16_t>(directory_, 0);  // disk
  store<uint16_t>(directory_, 0);  // internal attributes
  store<uint32_t>(directory_, 0);  // external attributes
  store<uint32_t>(directory_, saturated(local, far));
  directory_ += name;
  append_extra(directory_, field);
  ++members_;

  add_part(record + head, body);
}

void ZipWriter::write(const std::string& path) {
  uint64_t offset = offset_;
  std::string end = directory_;
  if (members_ >= 0xFFFF || directory_.size() >= kSaturated || offset >= kSaturated) {
    store<uint32_t>(end, kEnd64Signature);
    store<uint64_t>(end, kEnd64Bytes - 12);  // size of what follows
    store<uint16_t>(end, 45);
    store<uint16_t>(end, 45);
    store<uint32_t>(end, 0);  // disks
    store<uint32_t>(end, 0);
    store<uint64_t>(end, members_);
    store<uint64_t>(end, members_);
    store<uint64_t>(end, directory_.size());
    store<uint64_t>(end, offset);
    store<uint32_t>(end, kLocator64Signature);
    store<uint32_t>(end, 0);
    store<uint64_t>(end, offset + directory_.size());
    store<uint32_t>(end, 1);
  }
  auto members = static_cast<uint16_t>(std::min<uint64_t>(members_, 0xFFFF));
  store<uint32_t>(end, kEndSignature);
  store<uint16_t>(end, 0);  // disks
  store<uint16_t>(end, 0);
  store<uint16_t>(end, members);
  store<uint16_t>(end, members);
  store<uint32_t>(end, static_cast<uint32_t>(std::min<uint64_t>(directory_.size(), kSaturated)));
  store<uint32_t>(end, static_cast<uint32_t>(std::min<uint64_t>(offset, kSaturated)));
  store<uint16_t>(end, 0);  // comment length
  std::vector<std::string_view> parts;
  for (const Part& part : parts_) {
    parts.push_back(part.owned);
    parts.push_back(part.borrowed);
  }
  parts.push_back(end);
  write_file_atomically(path, parts);
}

}  // namespace flambeau::io
