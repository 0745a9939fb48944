#include "ops/text_dictionary.h"

#include "ops/city_hash.h"
#include "ops/ragged.h"

namespace monolith {

void TextDictionary::note(std::uint64_t id, std::span<const std::uint8_t> text) {
  if (text.size() > kMaxTextBytes) return;
  Part& part = part_of(id);
  const std::lock_guard lock(part.mutex);
  if (part.ids.contains(id) || size() >= max_texts_) return;
  part.fresh.bytes.append(reinterpret_cast<const char*>(text.data()), text.size());
  part.fresh.ends.push_back(static_cast<std::int64_t>(part.fresh.bytes.size()));
  part.ids.insert(id);
  size_.fetch_add(1, std::memory_order_relaxed);
}

void TextDictionary::add_known(std::span<const std::uint8_t> bytes, std::span<const std::int64_t> row_splits) {
  check_row_splits(row_splits, bytes.size());
  for (std::size_t row = 0; row + 1 < row_splits.size(); ++row) {
    const auto begin = static_cast<std::size_t>(row_splits[row]);
    const std::uint64_t id = city_hash64(bytes.subspan(begin, static_cast<std::size_t>(row_splits[row + 1]) - begin));
    Part& part = part_of(id);
    const std::lock_guard lock(part.mutex);
    if (part.ids.insert(id).second) size_.fetch_add(1, std::memory_order_relaxed);
  }
}

TextDictionary::Texts TextDictionary::take_new() {
  Texts all;
  for (Part& part : parts_) {
    const std::lock_guard lock(part.mutex);
    const auto begin = static_cast<std::int64_t>(all.bytes.size());
    all.bytes += part.fresh.bytes;
    for (const std::int64_t end : part.fresh.ends) all.ends.push_back(begin + end);
    part.fresh = {};
  }
  return all;
}

}  // namespace monolith
