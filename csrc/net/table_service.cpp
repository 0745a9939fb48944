#include "net/table_service.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "net/table_reply.h"
#include "ops/finite.h"
#include "ops/parallel_for.h"
#include "optim/halves.h"
#include "table/hash_shard.h"

namespace monolith::net {

namespace {

// Occurrences of the ids of one batch, repeated ones counted, that a table with a filter takes.
constexpr std::uint64_t kMaxOccurrences = std::uint64_t{1} << 26;

std::uint32_t seconds(std::int64_t value, std::string_view name) {
  if (value < 0 || value > 0xFFFFFFFFLL)
    refuse(std::string(name) + " must be seconds, 0 to 2**32 - 1, got " + std::to_string(value));
  return static_cast<std::uint32_t>(value);
}

}  // namespace

TableService::TableService(std::vector<ServedTable> tables, ServiceOptions options)
    : tables_(std::move(tables)), options_(options), applied_(options.max_partitions) {
  HashShard{options.shard, options.num_shards}.check();
  for (const ServedTable& one : tables_) {
    shared_.push_back(one.table);
    any_counts_ = any_counts_ || one.counts_occurrences;
  }
}

void TableService::answer(const Header& header, std::span<const std::byte> frame, const Deadline& deadline,
                          Scratch& scratch, ByteSink& sink) {
  const ShareCores sharing;
  if (header.kind != Kind::kRequest) throw CorruptFrame("a client sends requests, got a frame of another kind");
  try {
    const FrameView request(header, frame);
    if (is_over(deadline)) throw Refused("deadline", "the deadline passed before there was an answer");
    if (header.plan_hash != options_.plan_hash) {
      throw Refused("plan", "this table server was made for another lookup plan; restart the older side");
    }
    carry_out(request, deadline, scratch, sink);
  } catch (const CorruptFrame& error) {
    send_error(header, "frame", error.what(), sink);
    throw;
  } catch (const Refused& error) {
    send_error(header, error.code(), error.what(), sink);
  } catch (const NotFiniteRow& error) {
    send_error(header, "not_finite_row", error.what(), sink);
  } catch (const std::invalid_argument& error) {
    send_error(header, "handler", error.what(), sink);
  } catch (const std::bad_alloc&) {
    send_error(header, "handler", "the table server is out of memory", sink);
  }
}

void TableService::carry_out(const FrameView& request, const Deadline& deadline, Scratch& scratch, ByteSink& sink) {
  const auto type = static_cast<RequestType>(request.header().type);
  switch (type) {
    case RequestType::kPull:
      return pull(request, scratch, sink);
    case RequestType::kContains:
      return contains(request, sink);
    case RequestType::kStatus:
      return status(request, sink);
    default:
      break;
  }
  require_writable();
  switch (type) {
    case RequestType::kStep:
      return change(request, ChangeRequest::Kind::kStep, deadline, scratch, sink);
    case RequestType::kAssign:
      return change(request, ChangeRequest::Kind::kAssign, deadline, scratch, sink);
    case RequestType::kAdd:
      return change(request, ChangeRequest::Kind::kAdd, deadline, scratch, sink);
    case RequestType::kErase:
      return erase(request, sink);
    case RequestType::kEvict:
      return evict(request, sink);
    default:
      break;
  }
  refuse("a table server has no request of type " + std::to_string(request.header().type));
}

void TableService::require_writable() const {
  if (options_.read_only) refuse("this table server serves: its rows can be read, not changed");
}

TableService::Ids TableService::ids_of(const FrameView& request) const {
  Ids ids{request.int64s("ids"), request.int64s("sizes")};
  if (ids.sizes.size() != tables_.size()) {
    throw CorruptFrame("sizes must have one number per table: " + std::to_string(tables_.size()) + ", got " +
                       std::to_string(ids.sizes.size()));
  }
  std::size_t left = ids.all.size();
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (ids.sizes[t] < 0 || static_cast<std::size_t>(ids.sizes[t]) > left) {
      throw CorruptFrame("the sizes do not add up to the number of ids");
    }
    left -= static_cast<std::size_t>(ids.sizes[t]);
    ids.num_floats += static_cast<std::size_t>(ids.sizes[t]) * tables_[t].table->dim();
  }
  if (left != 0) throw CorruptFrame("the sizes do not add up to the number of ids");
  return ids;
}

// A row in the wrong shard would never be found again.
void TableService::check_routes(std::span<const std::int64_t> ids) const {
  if (options_.num_shards == 1) return;
  for (const std::int64_t id : ids) {
    if (const std::uint32_t shard = shard_of_hash(hash_id(id), options_.num_shards); shard != options_.shard) {
      refuse("id " + std::to_string(id) + " belongs to shard " + std::to_string(shard) + ", this one is " +
             std::to_string(options_.shard) + " of " + std::to_string(options_.num_shards));
    }
  }
}

std::span<const float> TableService::values_of(const FrameView& request, const Ids& ids, Scratch& scratch) const {
  std::span<const float> values;
  if (request.type_of("values") == ElementType::kFloat16) {
    const auto halves = request.halves("values");
    scratch.values.resize(std::max(scratch.values.size(), halves.size()));
    halves_to_floats(halves, scratch.values.data());
    values = {scratch.values.data(), halves.size()};
  } else {
    values = request.floats("values");
  }
  if (values.size() != ids.num_floats) {
    throw CorruptFrame("the request must have " + std::to_string(ids.num_floats) + " values, got " +
                       std::to_string(values.size()));
  }
  return values;
}

void TableService::check_finite(const Ids& ids, std::span<const float> values) const {
  const std::size_t place = first_not_finite(values);
  if (place == values.size()) return;
  std::size_t first_float = 0;
  std::size_t first_id = 0;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const RowTable& table = *tables_[t].table;
    const auto size = static_cast<std::size_t>(ids.sizes[t]);
    if (place < first_float + size * table.dim()) {
      const std::int64_t id = ids.all[first_id + (place - first_float) / table.dim()];
      refuse("table '" + table.options().name + "': a value of id " + std::to_string(id) +
             " is NaN or infinite; nothing was changed");
    }
    first_float += size * table.dim();
    first_id += size;
  }
}

void TableService::change(const FrameView& request, ChangeRequest::Kind kind, const Deadline& deadline,
                          Scratch& scratch, ByteSink& sink) {
  const Ids ids = ids_of(request);
  const std::span<const float> values = values_of(request, ids, scratch);
  const bool steps = kind == ChangeRequest::Kind::kStep;
  ChangeRequest change;
  change.kind = kind;
  change.values = values.data();
  change.time = seconds(single(request, "time"), "time");
  if (steps) {
    change.learning_rates = request.floats("rates");
    change.global_step = single(request, "step");
    if (change.global_step < 0) refuse("step must not be negative, got " + std::to_string(change.global_step));
    for (const ServedTable& one : tables_) {
      if (one.table->options().serving) refuse("table '" + one.table->options().name + "' takes no gradients");
    }
  }
  check_routes(ids.all);
  // The sum of finite gradients may be infinite: a step keeps such rows as they are and steps the others.
  if (!steps) check_finite(ids, values);
  ChangeResult result;
  const auto apply = [&] {
    // It may have waited for another batch of its partition.
    if (is_over(deadline)) throw Refused("deadline", "the deadline passed before there was an answer");
    if (steps && any_counts_ && request.has("counts")) {
      result = step_counted(ids, request.uint32s("counts"), change);
    } else {
      // A client sends each id of a step once; what is assigned or added may repeat.
      change.all_different = steps;
      result = MultiBatchPlan(shared_, ids.all, ids.sizes, !steps).change(change);
    }
  };
  bool applied = true;
  if (request.has("partition")) {
    const auto partition = request.bytes("partition");
    const auto range = request.uint64s("range");
    if (range.size() != 2 || partition.empty() || partition.size() > 256)
      throw CorruptFrame("a batch has the name of its partition, 1 to 256 bytes, and two offsets");
    applied =
        applied_.once({{reinterpret_cast<const char*>(partition.data()), partition.size()}, range[0], range[1]}, apply);
  } else {
    apply();
  }
  const std::array<std::int64_t, 4> numbers{applied ? 1 : 0, static_cast<std::int64_t>(result.inserted),
                                            static_cast<std::int64_t>(result.filtered),
                                            static_cast<std::int64_t>(result.refused)};
  const SmallArray reply{{"result", ElementType::kInt64, numbers.size()}, std::as_bytes(std::span(numbers))};
  send_arrays(request.header(), {&reply, 1}, sink);
}

// Lets the filters see each id as often as it occurred in the client's batch: repeated ids have no gradient after the
// first, so their sum is the one that was sent.
ChangeResult TableService::step_counted(const Ids& ids, std::span<const std::uint32_t> counts, ChangeRequest step) {
  if (counts.size() != ids.all.size()) throw CorruptFrame("counts must have one number per id");
  std::uint64_t total = 0;
  for (const std::uint32_t count : counts) total += count;
  if (total > kMaxOccurrences)
    refuse("a batch has " + std::to_string(kMaxOccurrences) + " ids at most, repeated ones counted");
  std::vector<std::int64_t> all;
  std::vector<std::int64_t> sizes;
  std::vector<float> values;
  std::size_t first = 0;
  const float* gradient = step.values;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const std::size_t dim = tables_[t].table->dim();
    const std::size_t before = all.size();
    for (std::size_t i = first; i < first + static_cast<std::size_t>(ids.sizes[t]); ++i, gradient += dim) {
      const std::size_t repeats = tables_[t].counts_occurrences ? std::max(1U, counts[i]) : 1;
      all.insert(all.end(), repeats, ids.all[i]);
      values.insert(values.end(), gradient, gradient + dim);
      values.resize(values.size() + (repeats - 1) * dim);
    }
    first += static_cast<std::size_t>(ids.sizes[t]);
    sizes.push_back(static_cast<std::int64_t>(all.size() - before));
  }
  step.values = values.data();
  return MultiBatchPlan(shared_, all, sizes, true).change(step);
}

void TableService::contains(const FrameView& request, ByteSink& sink) {
  const Ids ids = ids_of(request);
  const auto found = std::make_unique<bool[]>(ids.all.size());
  std::size_t first = 0;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const auto size = static_cast<std::size_t>(ids.sizes[t]);
    tables_[t].table->contains(ids.all.subspan(first, size), found.get() + first);
    first += size;
  }
  const SmallArray reply{{"found", ElementType::kBool, ids.all.size()},
                         std::as_bytes(std::span<const bool>(found.get(), ids.all.size()))};
  send_arrays(request.header(), {&reply, 1}, sink);
}

void TableService::erase(const FrameView& request, ByteSink& sink) {
  const Ids ids = ids_of(request);
  std::vector<std::int64_t> erased;
  std::size_t first = 0;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const auto size = static_cast<std::size_t>(ids.sizes[t]);
    erased.push_back(static_cast<std::int64_t>(tables_[t].table->erase(ids.all.subspan(first, size))));
    first += size;
  }
  const SmallArray reply{{"num_rows", ElementType::kInt64, erased.size()}, std::as_bytes(std::span(erased))};
  send_arrays(request.header(), {&reply, 1}, sink);
}

void TableService::evict(const FrameView& request, ByteSink& sink) {
  const auto now = request.int64s("now");
  if (now.size() != tables_.size()) throw CorruptFrame("now must have one number per table");
  std::vector<std::int64_t> evicted(tables_.size(), 0);
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (now[t] < 0) continue;
    evicted[t] = static_cast<std::int64_t>(tables_[t].table->evict(seconds(now[t], "now")));
  }
  const SmallArray reply{{"num_rows", ElementType::kInt64, evicted.size()}, std::as_bytes(std::span(evicted))};
  send_arrays(request.header(), {&reply, 1}, sink);
}

void TableService::status(const FrameView& request, ByteSink& sink) {
  std::vector<std::int64_t> num_rows;
  std::vector<std::int64_t> max_time;
  std::vector<std::int64_t> max_step;
  for (const ServedTable& one : tables_) {
    num_rows.push_back(static_cast<std::int64_t>(one.table->size()));
    max_time.push_back(one.table->max_time());
    max_step.push_back(one.table->max_step());
  }
  const std::array<SmallArray, 3> reply{{
      {{"num_rows", ElementType::kInt64, num_rows.size()}, std::as_bytes(std::span(num_rows))},
      {{"max_time", ElementType::kInt64, max_time.size()}, std::as_bytes(std::span(max_time))},
      {{"max_step", ElementType::kInt64, max_step.size()}, std::as_bytes(std::span(max_step))},
  }};
  send_arrays(request.header(), reply, sink);
}

}  // namespace monolith::net
