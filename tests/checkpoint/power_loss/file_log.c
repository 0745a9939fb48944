// Preloaded into a process: writes down what it does to the files below $FILE_LOG_ROOT, in the order in which it does it.
//
// $FILE_LOG_DIR/log gets one line per operation, with tabs between its parts:
//   create PATH | truncate PATH | mkdir PATH | rename FROM TO | unlink PATH | rmdir PATH | syncdir PATH | sync PATH NUMBER
// A file that is synced is copied to $FILE_LOG_DIR/NUMBER. Single writes are not logged: until a sync, nothing is known
// of a file's content anyway.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int num_synced;

static int raw_open(const char* path, int flags) { return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0644); }

// The absolute path in `out`, or 0 if it does not lie below the root.
static int resolve(int folder, const char* path, char* out) {
  const char* root = getenv("FILE_LOG_ROOT");
  if (root == NULL || path == NULL) return 0;
  if (path[0] == '/') {
    snprintf(out, PATH_MAX, "%s", path);
  } else {
    char link[64], base[PATH_MAX];
    if (folder == AT_FDCWD) {
      snprintf(link, sizeof link, "/proc/self/cwd");
    } else {
      snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    }
    const ssize_t size = readlink(link, base, sizeof base - 1);
    if (size < 0) return 0;
    base[size] = 0;
    snprintf(out, PATH_MAX, "%s%s%s", base, path[0] ? "/" : "", path);
  }
  return strncmp(out, root, strlen(root)) == 0 && (out[strlen(root)] == '/' || out[strlen(root)] == 0);
}

static void note(const char* format, ...) {
  char path[PATH_MAX], line[3 * PATH_MAX];
  snprintf(path, sizeof path, "%s/log", getenv("FILE_LOG_DIR"));
  va_list arguments;
  va_start(arguments, format);
  const int size = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  const int log = raw_open(path, O_WRONLY | O_CREAT | O_APPEND);
  if (log < 0 || syscall(SYS_write, log, line, (size_t)size) != size) abort();
  syscall(SYS_close, log);
}

static void copy(const char* from, int number) {
  char path[PATH_MAX], buffer[1 << 16];
  snprintf(path, sizeof path, "%s/%d", getenv("FILE_LOG_DIR"), number);
  const int in = raw_open(from, O_RDONLY), out = raw_open(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (in < 0 || out < 0) abort();
  for (ssize_t size; (size = syscall(SYS_read, in, buffer, sizeof buffer)) > 0;) {
    if (syscall(SYS_write, out, buffer, (size_t)size) != size) abort();
  }
  syscall(SYS_close, in);
  syscall(SYS_close, out);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define LOCKED(result_type, call, logged)     \
  pthread_mutex_lock(&mutex);                 \
  result_type result = (call);                \
  const int error = errno;                    \
  logged;                                     \
  pthread_mutex_unlock(&mutex);               \
  errno = error;                              \
  return result

static int exists(const char* path) {
  struct stat status;
  return stat(path, &status) == 0;
}

static int open_logged(int folder, const char* path, int flags, mode_t mode) {
  char full[PATH_MAX];
  const int ours = (flags & (O_CREAT | O_TRUNC)) != 0 && resolve(folder, path, full);
  const int known = ours && exists(full);
  LOCKED(int, (int)syscall(SYS_openat, folder, path, flags, mode),
         if (ours && result >= 0 && !known) note("create\t%s\n", full);
         if (ours && result >= 0 && known && (flags & O_TRUNC)) note("truncate\t%s\n", full));
}

#define MODE(flags)                                     \
  mode_t mode = 0;                                      \
  if ((flags) & (O_CREAT | O_TMPFILE)) {                \
    va_list arguments;                                  \
    va_start(arguments, flags);                         \
    mode = va_arg(arguments, mode_t);                   \
    va_end(arguments);                                  \
  }

int open(const char* path, int flags, ...) {
  MODE(flags)
  return open_logged(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  MODE(flags)
  return open_logged(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  MODE(flags)
  return open_logged(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  MODE(flags)
  return open_logged(folder, path, flags, mode);
}

static FILE* fopen_logged(__typeof__(&fopen) real, const char* path, const char* mode) {
  char full[PATH_MAX];
  const int ours = mode[0] != 'r' && resolve(AT_FDCWD, path, full);
  const int known = ours && exists(full);
  LOCKED(FILE*, real(path, mode), if (ours && result != NULL) note("%s\t%s\n", known ? "truncate" : "create", full));
}
FILE* fopen(const char* path, const char* mode) { return fopen_logged(REAL(fopen), path, mode); }
FILE* fopen64(const char* path, const char* mode) { return fopen_logged(REAL(fopen64), path, mode); }

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  char a[PATH_MAX], b[PATH_MAX];
  const int ours = resolve(from_folder, from, a) && resolve(to_folder, to, b);
  LOCKED(int, (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0),
         if (ours && result == 0) note("rename\t%s\t%s\n", a, b));
}
int rename(const char* from, const char* to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int unlinkat(int folder, const char* path, int flags) {
  char full[PATH_MAX];
  const int ours = resolve(folder, path, full);
  LOCKED(int, (int)syscall(SYS_unlinkat, folder, path, flags),
         if (ours && result == 0) note("%s\t%s\n", (flags & AT_REMOVEDIR) ? "rmdir" : "unlink", full));
}
int unlink(const char* path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char* path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) {
  struct stat status;
  return unlinkat(AT_FDCWD, path, lstat(path, &status) == 0 && S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0);
}

int mkdirat(int folder, const char* path, mode_t mode) {
  char full[PATH_MAX];
  const int ours = resolve(folder, path, full);
  LOCKED(int, (int)syscall(SYS_mkdirat, folder, path, mode), if (ours && result == 0) note("mkdir\t%s\n", full));
}
int mkdir(const char* path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

static int sync_logged(int file, long call) {
  char full[PATH_MAX];
  const int ours = resolve(file, "", full);
  struct stat status;
  LOCKED(int, (int)syscall(call, file), if (ours && result == 0 && stat(full, &status) == 0) {
    if (S_ISDIR(status.st_mode)) {
      note("syncdir\t%s\n", full);
    } else {
      copy(full, num_synced);
      note("sync\t%s\t%d\n", full, num_synced++);
    }
  });
}
int fsync(int file) { return sync_logged(file, SYS_fsync); }
int fdatasync(int file) { return sync_logged(file, SYS_fdatasync); }
