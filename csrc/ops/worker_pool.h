// Threads that help with loops. A loop ends when all its tasks are done, by any thread: a thread that gets no core,
// on a machine that others use too, holds nobody up.
#pragma once

#include <cstddef>
#include <functional>

namespace monolith {

// Calls task(i) once for every i in [0, num_tasks); the caller works too, with at most `max_helpers` helpers. Returns
// when all are done. Tasks may start loops of their own, which idle threads help with as well. The first exception that
// a task throws is rethrown, after the others ended.
void run_with_helpers(std::size_t num_tasks, std::size_t max_helpers, const std::function<void(std::size_t)>& task);

}  // namespace monolith
