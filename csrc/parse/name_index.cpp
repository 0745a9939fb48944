#include "parse/name_index.h"

namespace monolith::parse {

void NameIndex::add(std::string_view name, int column) {
  if (find(name) != kNone) return;
  entries_.push_back({std::string(name), hash_of(name), column});
  rebuild();
}

int NameIndex::find(std::string_view name) const {
  if (places_.empty()) return kNone;
  const std::uint64_t hash = hash_of(name);
  const std::size_t mask = places_.size() - 1;
  for (std::size_t place = hash & mask; places_[place] != kNone; place = (place + 1) & mask) {
    const Entry& entry = entries_[static_cast<std::size_t>(places_[place])];
    if (entry.hash == hash && entry.name.size() == name.size() &&
        same_bytes(entry.name.data(), name.data(), name.size())) {
      return entry.column;
    }
  }
  return kNone;
}

// First and last eight bytes and the length. Names that agree in these only cost comparisons.
std::uint64_t NameIndex::hash_of(std::string_view name) {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  const std::size_t size = name.size();
  if (size >= 8) {
    std::memcpy(&first, name.data(), 8);
    std::memcpy(&last, name.data() + size - 8, 8);
  } else if (size > 0) {
    std::memcpy(&first, name.data(), size);
  }
  std::uint64_t hash = (first * 0x9e3779b97f4a7c15) ^ (last * 0xc2b2ae3d27d4eb4f) ^ size;
  hash ^= hash >> 32;
  hash *= 0xd6e8feb86659fd93;
  return hash ^ hash >> 29;
}

void NameIndex::rebuild() {
  std::size_t size = 16;
  while (size < 4 * entries_.size()) size *= 2;
  places_.assign(size, kNone);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    std::size_t place = entries_[i].hash & (size - 1);
    while (places_[place] != kNone) place = (place + 1) & (size - 1);
    places_[place] = static_cast<int>(i);
  }
}

int NameHints::find_slowly(std::string_view name) {
  const int column = index_->find(name);
  if (next_ < hints_.size()) {
    hints_[next_] = {name, column};
  } else if (hints_.size() < kMaxHints) {
    hints_.push_back({name, column});
  }
  ++next_;
  return column;
}

}  // namespace monolith::parse
