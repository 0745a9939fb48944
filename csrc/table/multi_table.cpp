#include "table/multi_table.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>

#include "ops/parallel_for.h"

namespace monolith {

MultiBatchPlan::MultiBatchPlan(std::vector<std::shared_ptr<RowTable>> tables, std::span<const std::int64_t> ids,
                               std::span<const std::int64_t> sizes, bool merge_repeated)
    : tables_(std::move(tables)) {
  if (sizes.size() != tables_.size()) {
    throw std::invalid_argument("sizes must have one number per table: got " + std::to_string(sizes.size()) + " for " +
                                std::to_string(tables_.size()) + " tables");
  }
  std::vector<std::size_t> first_id;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (sizes[t] < 0) {
      throw std::invalid_argument("the size of table " + std::to_string(t) +
                                  " is negative: " + std::to_string(sizes[t]));
    }
    if (static_cast<std::size_t>(sizes[t]) > ids.size() - num_ids_) {
      throw std::invalid_argument("the sizes add up to more than the " + std::to_string(ids.size()) +
                                  " ids there are; table " + std::to_string(t) + " has size " +
                                  std::to_string(sizes[t]));
    }
    first_id.push_back(num_ids_);
    first_float_.push_back(num_floats_);
    num_ids_ += static_cast<std::size_t>(sizes[t]);
    num_floats_ += static_cast<std::size_t>(sizes[t]) * tables_[t]->dim();
    plans_.push_back(acquire_plan());
  }
  if (num_ids_ != ids.size()) {
    throw std::invalid_argument("the sizes add up to " + std::to_string(num_ids_) + " ids, got " +
                                std::to_string(ids.size()));
  }
  parallel_for(tables_.size(), [&](std::size_t t) {
    plans_[t]->build(ids.subspan(first_id[t], static_cast<std::size_t>(sizes[t])), merge_repeated, tables_[t]->hash());
  });
}

MultiBatchPlan::~MultiBatchPlan() {
  while (!plans_.empty()) plans_.pop_back();
}

std::size_t MultiBatchPlan::num_groups() const {
  std::size_t groups = 0;
  for (const PooledPlan& plan : plans_) groups += plan->num_groups();
  return groups;
}

std::size_t MultiBatchPlan::lookup(float* out) {
  std::atomic<std::size_t> hits{0};
  parallel_for(tables_.size(), [&](std::size_t t) {
    hits += tables_[t]->lookup(*plans_[t], out + first_float_[t], tables_[t]->dim());
  });
  return hits.load();
}

// Takes a table that nobody has taken yet, from `first` on: the first that no other batch is changing just now, so that
// batches that come at once go on side by side without locks; or the first.
std::size_t MultiBatchPlan::take_table(std::size_t first, std::vector<std::atomic<bool>>& is_taken) const {
  for (const bool also_busy : {false, true}) {
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      const std::size_t t = (first + i) % tables_.size();
      if (is_taken[t].load(std::memory_order_relaxed) || (!also_busy && tables_[t]->is_being_changed())) continue;
      if (!is_taken[t].exchange(true, std::memory_order_relaxed)) return t;
    }
  }
  throw std::logic_error("more tasks than tables");
}

ChangeResult MultiBatchPlan::change(const ChangeRequest& request) {
  std::vector<std::size_t> first_rate(tables_.size() + 1, 0);
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    first_rate[t + 1] = first_rate[t] + tables_[t]->layout().num_segments();
  }
  const bool takes_rates = request.kind == ChangeRequest::Kind::kStep;
  if (takes_rates && request.learning_rates.size() != first_rate.back()) {
    throw std::invalid_argument("learning_rates must have one value per segment of all tables: expected " +
                                std::to_string(first_rate.back()) + ", got " +
                                std::to_string(request.learning_rates.size()));
  }
  ChangeResult total;
  std::mutex mutex;
  std::vector<std::exception_ptr> not_finite(tables_.size());
  std::vector<std::atomic<bool>> is_taken(tables_.size());
  parallel_for(tables_.size(), [&](std::size_t first) {
    const std::size_t t = take_table(first, is_taken);
    ChangeRequest own = request;
    own.values += first_float_[t];
    if (takes_rates) {
      own.learning_rates = request.learning_rates.subspan(first_rate[t], first_rate[t + 1] - first_rate[t]);
    }
    ChangeResult result;
    try {
      result = tables_[t]->change(*plans_[t], own);
    } catch (const NotFiniteRow&) {
      not_finite[t] = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    total.inserted += result.inserted;
    total.filtered += result.filtered;
    total.refused += result.refused;
  });
  // The first table's, whichever thread came first.
  for (const std::exception_ptr& error : not_finite) {
    if (error) std::rethrow_exception(error);
  }
  return total;
}

}  // namespace monolith
