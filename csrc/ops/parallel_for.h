// The one way this core uses several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace monolith {

// How many threads parallel_for uses: OpenMP's setting (shared with torch), or set_num_threads.
int num_threads();
void set_num_threads(int count);

// From now on, what the calling thread does is done by it alone, or, with false, no longer so. For threads in the
// background: each thread that uses several has helpers of its own, and with more helpers than cores all of them go to
// sleep after every small task, those of the training too.
void work_alone(bool alone = true);

// The same for as long as it lives.
class WorkAlone {
 public:
  WorkAlone();
  ~WorkAlone() { work_alone(before_); }
  WorkAlone(const WorkAlone&) = delete;
  WorkAlone& operator=(const WorkAlone&) = delete;

 private:
  bool before_;
};

// For a thread of a server while it answers a request: the threads that do so share the cores evenly, and are helped by
// the threads of one pool (shared_threads.h).
class ShareCores {
 public:
  ShareCores();
  ~ShareCores();
  ShareCores(const ShareCores&) = delete;
  ShareCores& operator=(const ShareCores&) = delete;
};

// Calls task(i) once for every i in [0, num_tasks), several at a time. Each thread takes the tasks of its own stretch
// in order, then those that others have not come to yet. Returns when all are done. The first exception a task throws
// is rethrown here, after the others ended.
void parallel_for(std::size_t num_tasks, const std::function<void(std::size_t)>& task);

// The same for tasks that wait for a disk now and then: taken in order, twice as many at a time, each on a thread of
// its own, which does alone what it does.
void parallel_io(std::size_t num_tasks, const std::function<void(std::size_t)>& task);

}  // namespace monolith
