// A small linker for the objects of the emitter: allocated sections are laid out in one mapping,
// followed by jump stubs and addresses of outside functions, so that every relocation is in reach.
// The mapping is writable while it is filled and executable afterwards, never both.
#include "flambeau/emit/object.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include "flambeau/base/error.h"
#include "flambeau/emit/lanes.h"

namespace flambeau::emit {
namespace {

// The only functions that kernels call. Anything else in an object is an instruction that the
// emitter should not have left to a library.
const void* outside_function(std::string_view name) {
  if (name == "flambeau_load_lanes") return reinterpret_cast<const void*>(&flambeau_load_lanes);
  if (name == "flambeau_store_lanes") return reinterpret_cast<const void*>(&flambeau_store_lanes);
  if (name == "fmod") {
    return reinterpret_cast<const void*>(static_cast<double (*)(double, double)>(&std::fmod));
  }
  if (name == "fmodf") {
    return reinterpret_cast<const void*>(static_cast<float (*)(float, float)>(&std::fmod));
  }
  fail(ErrorKind::internal, text("internal error: machine code calls unknown function ", name));
}

class MappedCode : public Code {
 public:
  explicit MappedCode(size_t size) : size_(size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED, ErrorKind::out_of_memory, "no memory for ", size,
          " bytes of machine code");
    base_ = static_cast<char*>(memory);
  }
  ~MappedCode() override { munmap(base_, size_); }
  MappedCode(const MappedCode&) = delete;
  MappedCode& operator=(const MappedCode&) = delete;

  char* base() const { return base_; }
  void seal() {
    check(mprotect(base_, size_, PROT_READ | PROT_EXEC) == 0, ErrorKind::runtime,
          "the system refuses executable memory: ", std::strerror(errno));
  }
  void add_entry(char* address) { entries_.push_back(reinterpret_cast<Entry>(address)); }

 private:
  char* base_ = nullptr;
  size_t size_ = 0;
};

// `jmp *[rip + 2]`, two bytes of padding, the address: 16 bytes, and the address serves as an entry
// of a global offset table too.
constexpr size_t kStubSize = 16;
constexpr size_t kStubAddress = 8;
constexpr unsigned char kStubCode[kStubAddress] = {0xFF, 0x25, 0x02, 0, 0, 0, 0x66, 0x90};

class Linker {
 public:
  explicit Linker(std::string_view object) : object_(object) {}

  std::shared_ptr<const Code> link(const loop::Module& module) {
    read_sections();
    const size_t size = lay_out();
    auto code = std::make_shared<MappedCode>(size);
    base_ = code->base();
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Elf64_Shdr& section = sections_[i];
      if (!(section.sh_flags & SHF_ALLOC) || section.sh_type == SHT_NOBITS) continue;
      const std::string_view bytes = slice(section.sh_offset, section.sh_size);
      std::memcpy(base_ + places_[i], bytes.data(), bytes.size());
    }
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_RELA && place(section.sh_info) != kNowhere) relocate(section);
    }
    code->seal();
    find_entries(module, *code);
    return code;
  }

 private:
  static constexpr size_t kNowhere = ~size_t{0};

  std::string_view slice(size_t offset, size_t size) const {
    internal_check(offset <= object_.size() && size <= object_.size() - offset,
                   "machine code object is cut off");
    return object_.substr(offset, size);
  }

  template <class T>
  std::vector<T> table(const Elf64_Shdr& section) const {
    const std::string_view bytes = slice(section.sh_offset, section.sh_size);
    std::vector<T> out(bytes.size() / sizeof(T));
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
    return out;
  }

  void read_sections() {
    Elf64_Ehdr header;
    std::memcpy(&header, slice(0, sizeof header).data(), sizeof header);
    internal_check(std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                       header.e_machine == EM_X86_64 && header.e_type == ET_REL &&
                       header.e_shentsize == sizeof(Elf64_Shdr),
                   "machine code object is no relocatable x86-64 ELF file");
    sections_.resize(header.e_shnum);
    std::memcpy(sections_.data(),
                slice(header.e_shoff, sections_.size() * sizeof(Elf64_Shdr)).data(),
                sections_.size() * sizeof(Elf64_Shdr));
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_SYMTAB) continue;
      symbols_ = table<Elf64_Sym>(section);
      internal_check(section.sh_link < sections_.size(), "machine code object has no names");
      const Elf64_Shdr& names = sections_[section.sh_link];
      names_ = slice(names.sh_offset, names.sh_size);
      internal_check(!names_.empty() && names_.back() == '\0', "machine code object has no names");
    }
  }

  size_t lay_out() {
    places_.assign(sections_.size(), kNowhere);
    // Sanitized callers look for a signature in the bytes before a function.
    size_t end = kStubSize;
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Elf64_Shdr& section = sections_[i];
      if (!(section.sh_flags & SHF_ALLOC) || section.sh_type == SHT_X86_64_UNWIND) continue;
      internal_check(!(section.sh_flags & (SHF_WRITE | SHF_TLS)) || section.sh_size == 0,
                     "machine code object has writable data");
      const size_t align = std::max<size_t>(section.sh_addralign, 1);
      internal_check((align & (align - 1)) == 0 && align <= 4096 && section.sh_size < (1u << 30),
                     "machine code object has a malformed section");
      end = (end + align - 1) & ~(align - 1);
      places_[i] = end;
      end += section.sh_size;
    }
    stubs_ = (end + kStubSize - 1) & ~(kStubSize - 1);
    size_t outside = 0;
    for (const Elf64_Sym& symbol : symbols_) outside += symbol.st_shndx == SHN_UNDEF;
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return (stubs_ + outside * kStubSize + page - 1) & ~(page - 1);
  }

  size_t place(size_t section) const {
    return section < places_.size() ? places_[section] : kNowhere;
  }

  std::string_view symbol_name(const Elf64_Sym& symbol) const {
    internal_check(symbol.st_name < names_.size(), "machine code object has a malformed symbol");
    return names_.data() + symbol.st_name;
  }

  // Stub of an outside function, made at its first use.
  char* stub(uint32_t number) {
    auto [found, fresh] = stub_of_.try_emplace(number, nullptr);
    if (!fresh) return found->second;
    const std::string_view name = symbol_name(symbols_[number]);
    const void* address = outside_function(name);
    char* at = base_ + stubs_ + (stub_of_.size() - 1) * kStubSize;
    std::memcpy(at, kStubCode, sizeof kStubCode);
    std::memcpy(at + kStubAddress, &address, sizeof address);
    found->second = at;
    return at;
  }

  void relocate(const Elf64_Shdr& relocations) {
    const size_t target_size = sections_[relocations.sh_info].sh_size;
    char* const target = base_ + places_[relocations.sh_info];
    for (const Elf64_Rela& r : table<Elf64_Rela>(relocations)) {
      const uint32_t number = static_cast<uint32_t>(ELF64_R_SYM(r.r_info));
      const uint32_t kind = static_cast<uint32_t>(ELF64_R_TYPE(r.r_info));
      internal_check(number < symbols_.size(), "machine code object has a malformed relocation");
      const Elf64_Sym& symbol = symbols_[number];
      const bool outside = symbol.st_shndx == SHN_UNDEF;
      const bool through_table =
          kind == R_X86_64_GOTPCREL || kind == R_X86_64_GOTPCRELX || kind == R_X86_64_REX_GOTPCRELX;
      internal_check(outside || (place(symbol.st_shndx) != kNowhere && !through_table),
                     "machine code object has a relocation of kind ", kind, " that is not known");
      char* to = outside ? stub(number) + (through_table ? kStubAddress : 0)
                         : base_ + places_[symbol.st_shndx] + symbol.st_value;
      const size_t width = kind == R_X86_64_64 || kind == R_X86_64_PC64 ? 8 : 4;
      internal_check(r.r_offset <= target_size && width <= target_size - r.r_offset,
                     "machine code object has a malformed relocation");
      char* const at = target + r.r_offset;
      const int64_t absolute = reinterpret_cast<int64_t>(to) + r.r_addend;
      const int64_t relative = absolute - reinterpret_cast<int64_t>(at);
      switch (kind) {
        case R_X86_64_64:
          std::memcpy(at, &absolute, 8);
          break;
        case R_X86_64_PC64:
          std::memcpy(at, &relative, 8);
          break;
        case R_X86_64_PC32:
        case R_X86_64_PLT32:
        case R_X86_64_GOTPCREL:
        case R_X86_64_GOTPCRELX:
        case R_X86_64_REX_GOTPCRELX: {
          const auto narrow = static_cast<int32_t>(relative);
          internal_check(narrow == relative, "machine code is too large");
          std::memcpy(at, &narrow, 4);
          break;
        }
        default:
          fail(ErrorKind::internal,
               text("internal error: machine code object has a relocation of kind ", kind,
                    " that is not known"));
      }
    }
  }

  void find_entries(const loop::Module& module, MappedCode& code) const {
    std::map<std::string_view, char*> by_name;
    for (const Elf64_Sym& symbol : symbols_) {
      if (ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL || place(symbol.st_shndx) == kNowhere)
        continue;
      by_name[symbol_name(symbol)] = base_ + places_[symbol.st_shndx] + symbol.st_value;
    }
    for (const loop::Function& function : module.functions) {
      const auto found = by_name.find(function.name);
      internal_check(found != by_name.end(), "machine code has no function ", function.name);
      code.add_entry(found->second);
    }
  }

  std::string_view object_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<Elf64_Sym> symbols_;
  std::string_view names_;
  std::vector<size_t> places_;  // of sections, from the base; kNowhere when not mapped
  size_t stubs_ = 0;
  std::map<uint32_t, char*> stub_of_;
  char* base_ = nullptr;
};

}  // namespace

std::shared_ptr<const Code> load_object(std::string_view object, const loop::Module& module) {
  return Linker(object).link(module);
}

}  // namespace flambeau::emit
