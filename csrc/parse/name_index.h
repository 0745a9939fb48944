// Which column a feature name belongs to.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace monolith::parse {

// Whether two strings of the same length are equal; feature names are short, so no call is made for most.
inline bool same_bytes(const char* a, const char* b, std::size_t size) {
  if (size >= 8 && size <= 16) {
    std::uint64_t words[4];
    std::memcpy(&words[0], a, 8);
    std::memcpy(&words[1], b, 8);
    std::memcpy(&words[2], a + size - 8, 8);
    std::memcpy(&words[3], b + size - 8, 8);
    return ((words[0] ^ words[1]) | (words[2] ^ words[3])) == 0;
  }
  if (size > 16) return std::memcmp(a, b, size) == 0;
  if (size >= 4) {
    std::uint32_t words[4];
    std::memcpy(&words[0], a, 4);
    std::memcpy(&words[1], b, 4);
    std::memcpy(&words[2], a + size - 4, 4);
    std::memcpy(&words[3], b + size - 4, 4);
    return ((words[0] ^ words[1]) | (words[2] ^ words[3])) == 0;
  }
  for (std::size_t i = 0; i < size; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

// Names to column numbers; built once, then read by all threads.
class NameIndex {
 public:
  static constexpr int kNone = -1;

  // A name given twice keeps its first column.
  void add(std::string_view name, int column);
  int find(std::string_view name) const;

 private:
  struct Entry {
    std::string name;
    std::uint64_t hash = 0;
    int column = kNone;
  };

  static std::uint64_t hash_of(std::string_view name);
  void rebuild();

  std::vector<Entry> entries_;
  std::vector<int> places_;  // open addressing: numbers of entries, or kNone; a power of two, at most a quarter full
};

// Remembers the names of the last record in their order. Records of one source mostly repeat it, so the n-th name is
// found by one comparison. Names point into the buffer of records: one object serves one batch on one thread.
class NameHints {
 public:
  explicit NameHints(const NameIndex& index) : index_(&index) {}

  void begin_record() { next_ = 0; }

  int find(std::string_view name) {
    if (next_ < hints_.size()) {
      const Hint& hint = hints_[next_];
      if (hint.name.size() == name.size() && same_bytes(hint.name.data(), name.data(), name.size())) {
        ++next_;
        return hint.column;
      }
    }
    return find_slowly(name);
  }

 private:
  struct Hint {
    std::string_view name;
    int column;
  };
  static constexpr std::size_t kMaxHints = 4096;  // a record may have any number of features

  int find_slowly(std::string_view name);

  const NameIndex* index_;
  std::vector<Hint> hints_;
  std::size_t next_ = 0;
};

}  // namespace monolith::parse
