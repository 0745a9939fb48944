// The one way this core uses several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace monolith {

// How many threads parallel_for uses: OpenMP's setting (shared with torch), or set_num_threads.
int num_threads();
void set_num_threads(int count);

// Calls task(i) once for every i in [0, num_tasks), several at a time; tasks are taken in order as threads
// become free. Returns when all are done. The first exception a task throws is rethrown here, after the others ended.
void parallel_for(std::size_t num_tasks, const std::function<void(std::size_t)>& task);

}  // namespace monolith
