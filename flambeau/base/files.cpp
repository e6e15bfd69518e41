#include "flambeau/base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "flambeau/base/error.h"

namespace flambeau {

namespace {

std::string reason(int code) { return std::generic_category().message(code); }

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value() const { return value_; }
  // Closes now, to see the errors that a network file system reports only then.
  int close() {
    int result = ::close(value_);
    value_ = -1;
    return result;
  }

 private:
  int value_;
};

int open_to_read(const std::string& path) {
  int result;
  do {
    result = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  } while (result < 0 && errno == EINTR);
  return result;
}

// Zero, or the system's error code.
int read_all(const std::string& path, std::string& out) {
  Descriptor file(open_to_read(path));
  if (file.value() < 0) return errno;
  struct stat status;
  if (::fstat(file.value(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  // The size is a hint only: files in /proc say 0, and others may grow meanwhile.
  size_t used = 0;
  out.resize(static_cast<size_t>(status.st_size) + 1);
  while (true) {
    ssize_t got = ::read(file.value(), out.data() + used, out.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) break;
    used += static_cast<size_t>(got);
    if (used == out.size()) out.resize(out.size() * 2 + 4096);
  }
  out.resize(used);
  return 0;
}

// Zero, or the system's error code.
int write_all(int file, std::string_view content) {
  while (!content.empty()) {
    ssize_t put = ::write(file, content.data(), content.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    content.remove_prefix(static_cast<size_t>(put));
  }
  return 0;
}

}  // namespace

std::string read_file(const std::string& path) {
  std::string content;
  int code = read_all(path, content);
  check(code == 0, ErrorKind::runtime, "cannot read '", path, "': ", reason(code));
  return content;
}

std::optional<std::string> try_read_file(const std::string& path) {
  std::string content;
  if (read_all(path, content) != 0) return std::nullopt;
  return content;
}

void write_file_atomically(const std::string& path, std::string_view content) {
  write_file_atomically(path, std::vector<std::string_view>{content});
}

void write_file_atomically(const std::string& path, const std::vector<std::string_view>& parts) {
  static std::atomic<uint64_t> counter{0};
  std::string temporary;
  int opened;
  do {
    temporary = text(path, ".", ::getpid(), ".", counter.fetch_add(1), ".tmp");
    opened = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    // EEXIST: left by a process of the same number that was killed.
  } while (opened < 0 && (errno == EEXIST || errno == EINTR));
  check(opened >= 0, ErrorKind::runtime, "cannot write '", path, "': ", reason(errno));
  Descriptor file(opened);
  int code = 0;
  for (size_t i = 0; i < parts.size() && code == 0; ++i) code = write_all(file.value(), parts[i]);
  if (file.close() != 0 && code == 0 && errno != EINTR) code = errno;
  if (code == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) code = errno;
  if (code != 0) ::unlink(temporary.c_str());
  check(code == 0, ErrorKind::runtime, "cannot write '", path, "': ", reason(code));
}

bool make_folders(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  return std::filesystem::is_directory(path, code);
}

MappedFile::MappedFile(const std::string& path) {
  Descriptor file(open_to_read(path));
  check(file.value() >= 0, ErrorKind::runtime, "cannot read '", path, "': ", reason(errno));
  struct stat status;
  check(::fstat(file.value(), &status) == 0, ErrorKind::runtime, "cannot read '", path,
        "': ", reason(errno));
  check(S_ISREG(status.st_mode), ErrorKind::runtime, "cannot map '", path,
        "': ", S_ISDIR(status.st_mode) ? reason(EISDIR) : "not a regular file");
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;
  void* memory =
      ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.value(), 0);
  check(memory != MAP_FAILED, ErrorKind::runtime, "cannot map '", path, "' of ", size_,
        " bytes: ", reason(errno));
  data_ = static_cast<char*>(memory);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace flambeau
