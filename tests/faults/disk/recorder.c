/* Record every change that a family of programs makes to the files below a folder, in order.

Loaded before libc (LD_PRELOAD) into Python, its JVM and whatever these start. Each change is written to a journal, with
the bytes, under a lock that all of them share: a prefix of the journal is the disk at one moment, so the state that a kill
at that moment leaves is made from the journal, without a kill (tests/faults/disk/journal.py). The same journal knows what
was synced, so it also gives what a power cut at that moment may leave.

The memory that they share can ask for more: to halt before change HALT, with the lock held, so that nothing changes
any more until the family is killed; or to fail with errno FAULT between two changes, as a full disk does.

What stdio writes inside libc and what is written through a mapping is not seen; nothing below a lake is written so. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 65536

struct shared { volatile int lock; volatile int halted; volatile long count, halt, from, until, fault; };

static struct shared *share;
static int journal = -1;
static char root[PATH_MAX], outside[PATH_MAX];
static unsigned char mine[FDS]; /* 1: a file below the root that is written, 2: a folder */

__attribute__((constructor)) static void begin(void) {
  const char *folder = getenv("DISK_ROOT"), *log = getenv("DISK_JOURNAL"), *memory = getenv("DISK_SHARED");
  if (!folder || !log || !memory) return;
  snprintf(root, sizeof root, "%s/", folder);
  snprintf(outside, sizeof outside, "%s/_logs/", folder);
  int fd = syscall(SYS_openat, AT_FDCWD, memory, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void *found = mmap(0, sizeof *share, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (found == MAP_FAILED) return;
  fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CLOEXEC);
  journal = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 60000) ;
  if (journal < 0) journal = fd; else syscall(SYS_close, fd);
  share = found;
}

/* The absolute path if it lies below the root and is not a log; else NULL. */
static const char *below(int dir, const char *path, char *into) {
  if (!share || !path || !*path) return NULL;
  if (*path == '/') snprintf(into, PATH_MAX, "%s", path);
  else {
    char link[64], base[PATH_MAX];
    snprintf(link, sizeof link, dir == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", dir);
    ssize_t size = readlink(link, base, sizeof base - 1);
    if (size < 0) return NULL;
    base[size] = 0;
    if (snprintf(into, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return NULL;
  }
  size_t length = strlen(root);
  if (!strncmp(into, root, length - 1) && !into[length - 1]) return into; /* the root itself, which may be synced */
  if (strncmp(into, root, length) || !strncmp(into, outside, strlen(outside))) return NULL;
  return into;
}

static void enter(void) { while (__sync_lock_test_and_set(&share->lock, 1)) sched_yield(); }
static void leave(void) { __sync_lock_release(&share->lock); }

/* Count a change that is about to be made; return an errno if it must fail. */
static int allowed(int takes_room) {
  long number = share->count;
  if (share->halt >= 0 && number >= share->halt) {
    share->halted = 1;
    for (;;) usleep(10000); /* with the lock */
  }
  if (takes_room && share->fault && number >= share->from && number < share->until) {
    share->count++;
    return (int)share->fault;
  }
  return 0;
}

static void note(char kind, const char *a, const char *b, int64_t x, int64_t y, const void *data, size_t size) {
  if (kind != 'm') share->count++;
  uint32_t la = a ? strlen(a) : 0, lb = b ? strlen(b) : 0, total = 37 + la + lb + size;
  char head[37];
  uint32_t pid = getpid();
  memcpy(head, &total, 4); head[4] = kind; memcpy(head + 5, &pid, 4);
  memcpy(head + 9, &x, 8); memcpy(head + 17, &y, 8);
  memcpy(head + 25, &la, 4); memcpy(head + 29, &lb, 4); memset(head + 33, 0, 4);
  struct iovec parts[4] = {{head, 37}, {(void *)a, la}, {(void *)b, lb}, {(void *)data, size}};
  syscall(SYS_writev, journal, parts, 4);
}

static int64_t node(int fd) { struct stat s; return fstat(fd, &s) ? -1 : (int64_t)s.st_ino; }

/* A line of the program under test about itself: which door it goes through. */
void disk_mark(const char *text) { if (share) { enter(); note('m', text, 0, 0, 0, 0, 0); leave(); } }

static int opened(int dir, const char *path, int flags, mode_t mode) {
  char full[PATH_MAX];
  const char *name = below(dir, path, full);
  int writes = (flags & O_ACCMODE) != O_RDONLY;
  if (!name) {
    int fd = syscall(SYS_openat, dir, path, flags, mode);
    if (fd >= 0 && fd < FDS) mine[fd] = 0; /* stdio closes without our knowledge */
    return fd;
  }
  if (!writes && !(flags & (O_CREAT | O_TRUNC))) {
    int fd = syscall(SYS_openat, dir, path, flags, mode);
    struct stat s;
    if (fd >= 0 && fd < FDS && !fstat(fd, &s)) mine[fd] = S_ISDIR(s.st_mode) ? 2 : 1; /* it may be synced through it */
    return fd;
  }
  enter();
  struct stat before;
  int is_new = lstat(name, &before) != 0;
  int why = allowed(is_new), fd = -1;
  if (!why) {
    fd = syscall(SYS_openat, dir, path, flags, mode);
    why = errno;
    if (fd >= 0) {
      if (fd < FDS) mine[fd] = 1;
      note('o', name, 0, node(fd), (is_new ? 1 : 0) | (flags & O_TRUNC ? 2 : 0), 0, 0);
    }
  }
  leave();
  if (fd < 0) errno = why;
  return fd;
}

#define MODE mode_t mode = 0; if (flags & (O_CREAT | __O_TMPFILE)) { va_list l; va_start(l, flags); mode = va_arg(l, mode_t); va_end(l); }
int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE return opened(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE return opened(dir, path, flags, mode); }
int __open_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __openat_2(int dir, const char *path, int flags) { return opened(dir, path, flags, 0); }
int __openat64_2(int dir, const char *path, int flags) { return opened(dir, path, flags, 0); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) {
  if (fd >= 0 && fd == journal) { errno = EBADF; return -1; }
  if (fd >= 0 && fd < FDS) mine[fd] = 0;
  return syscall(SYS_close, fd);
}

static int is_mine(int fd) {
  struct stat s;
  return share && fd >= 0 && fd < FDS && mine[fd] == 1 && !fstat(fd, &s) && S_ISREG(s.st_mode);
}

static ssize_t wrote(int fd, const struct iovec *parts, int count, int64_t at) {
  enter();
  int why = allowed(1);
  ssize_t done = -1;
  if (!why) {
    done = at < 0 ? syscall(SYS_writev, fd, parts, count) : syscall(SYS_pwritev, fd, parts, count, at, 0);
    why = errno;
    int64_t from = at < 0 ? (int64_t)syscall(SYS_lseek, fd, 0, SEEK_CUR) - done : at;
    ssize_t left = done;
    for (int i = 0; i < count && left > 0; i++) {
      size_t size = parts[i].iov_len < (size_t)left ? parts[i].iov_len : (size_t)left;
      note('w', 0, 0, node(fd), from, parts[i].iov_base, size);
      from += size; left -= size;
    }
  }
  leave();
  if (done < 0) errno = why;
  return done;
}

ssize_t write(int fd, const void *data, size_t size) {
  struct iovec one = {(void *)data, size};
  return is_mine(fd) ? wrote(fd, &one, 1, -1) : syscall(SYS_write, fd, data, size);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
  struct iovec one = {(void *)data, size};
  return is_mine(fd) ? wrote(fd, &one, 1, at) : syscall(SYS_pwrite64, fd, data, size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return pwrite(fd, data, size, at); }
ssize_t writev(int fd, const struct iovec *parts, int count) {
  return is_mine(fd) ? wrote(fd, parts, count, -1) : syscall(SYS_writev, fd, parts, count);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
  return is_mine(fd) ? wrote(fd, parts, count, at) : syscall(SYS_pwritev, fd, parts, count, at, 0);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) { return pwritev(fd, parts, count, at); }

/* A program that copies in the kernel copies by hand instead, so that the bytes are seen. */
ssize_t sendfile(int to, int from, off_t *at, size_t size) {
  if (is_mine(to)) { errno = EINVAL; return -1; }
  return syscall(SYS_sendfile, to, from, at, size);
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t size) { return sendfile(to, from, at, size); }
ssize_t copy_file_range(int from, off64_t *a, int to, off64_t *b, size_t size, unsigned flags) {
  if (is_mine(to)) { errno = ENOSYS; return -1; }
  return syscall(SYS_copy_file_range, from, a, to, b, size, flags);
}

int ftruncate(int fd, off_t size) {
  if (!is_mine(fd)) return syscall(SYS_ftruncate, fd, size);
  enter();
  int why = allowed(0), done = syscall(SYS_ftruncate, fd, size);
  why = errno;
  if (!done) note('t', 0, 0, node(fd), size, 0, 0);
  leave();
  if (done) errno = why;
  return done;
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }

static int synced(int fd, long call) {
  if (!share || fd < 0 || fd >= FDS || !mine[fd]) return syscall(call, fd);
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  path[size < 0 ? 0 : size] = 0;
  enter();
  allowed(0);
  note('s', path, 0, node(fd), mine[fd] == 2, 0, 0); /* the disk itself need not be asked: the journal knows */
  leave();
  return 0;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

/* A change of names: its kind, the paths, whether it takes room, and the call. */
#define NAMED(kind, dir1, path1, dir2, path2, takes_room, call)                                                     \
  char fa[PATH_MAX], fb[PATH_MAX];                                                                                 \
  const char *a = below(dir1, path1, fa), *b = below(dir2, path2, fb);                                             \
  if (!a && !b) return call;                                                                                       \
  enter();                                                                                                         \
  int why = allowed(takes_room), done = -1;                                                                        \
  if (!why) {                                                                                                      \
    done = call;                                                                                                   \
    why = errno;                                                                                                   \
    if (!done) note(kind, a ? a : path1, b ? b : path2, 0, 0, 0, 0);                                               \
  }                                                                                                                \
  leave();                                                                                                         \
  if (done) errno = why;                                                                                           \
  return done;

int renameat2(int d, const char *p, int e, const char *q, unsigned f) { NAMED('r', d, p, e, q, 1, syscall(SYS_renameat2, d, p, e, q, f)) }
int renameat(int d, const char *p, int e, const char *q) { return renameat2(d, p, e, q, 0); }
int rename(const char *p, const char *q) { return renameat2(AT_FDCWD, p, AT_FDCWD, q, 0); }
int linkat(int d, const char *p, int e, const char *q, int f) { NAMED('l', d, p, e, q, 1, syscall(SYS_linkat, d, p, e, q, f)) }
int link(const char *p, const char *q) { return linkat(AT_FDCWD, p, AT_FDCWD, q, 0); }
int symlinkat(const char *to, int e, const char *q) {
  char full[PATH_MAX];
  const char *b = below(e, q, full);
  if (!b) return syscall(SYS_symlinkat, to, e, q);
  enter();
  int why = allowed(1), done = -1;
  if (!why) {
    done = syscall(SYS_symlinkat, to, e, q);
    why = errno;
    if (!done) note('y', to, b, 0, 0, 0, 0);
  }
  leave();
  if (done) errno = why;
  return done;
}
int symlink(const char *to, const char *q) { return symlinkat(to, AT_FDCWD, q); }
int unlinkat(int d, const char *p, int f) { NAMED('u', d, p, AT_FDCWD, NULL, 0, syscall(SYS_unlinkat, d, p, f)) }
int unlink(const char *p) { return unlinkat(AT_FDCWD, p, 0); }
int rmdir(const char *p) { return unlinkat(AT_FDCWD, p, AT_REMOVEDIR); }
int remove(const char *p) {
  int done = unlink(p);
  return done && errno == EISDIR ? rmdir(p) : done;
}
int mkdirat(int d, const char *p, mode_t m) { NAMED('d', d, p, AT_FDCWD, NULL, 1, syscall(SYS_mkdirat, d, p, m)) }
int mkdir(const char *p, mode_t m) { return mkdirat(AT_FDCWD, p, m); }
