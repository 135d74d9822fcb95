// An allocator to be preloaded: it puts each block of memory before an inaccessible page, so that a
// read or write beyond a block, or after it was freed, ends the process. Blocks are filled with a
// chosen byte at first: if it shows in a result, that memory was never written.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { kPage = 4096, kAlignment = 16 };
static const size_t kArena = (size_t)64 << 30, kLargest = (size_t)64 << 20;

static char* arena;      // each address is used only once
static uint64_t* notes;  // for the page where a block's data begin: its size, and the pages before
static size_t next_page;
static int is_enabled, fill;

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void __libc_free(void*);

__attribute__((constructor)) static void reserve(void) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  notes = mmap(0, kArena / kPage * sizeof(*notes), PROT_READ | PROT_WRITE, flags, -1, 0);
  arena = mmap(0, kArena, PROT_NONE, flags, -1, 0);
}

// Turns fences on, with blocks filled with this byte, or off.
void fence_enable(int on, int byte) {
  fill = byte;
  is_enabled = on;
}

static int is_ours(const void* data) {
  return arena && (char*)data >= arena && (char*)data < arena + kArena;
}

static uint64_t* note_of(void* data) { return &notes[((char*)data - arena) / kPage]; }

// Allocates a fenced block, even if fences are off.
void* fence_allocate(size_t size, size_t alignment) {
  const size_t pages = (size + alignment + kPage - 1) / kPage;
  const size_t first = __sync_fetch_and_add(&next_page, pages + 1);
  char* const begin = arena + first * kPage;
  char* const end = begin + pages * kPage;
  if (end + kPage > arena + kArena || mprotect(begin, end - begin, PROT_READ | PROT_WRITE)) {
    errno = ENOMEM;
    return 0;
  }
  memset(begin, fill, end - begin);
  char* data = (char*)((uintptr_t)(end - size) & ~(uintptr_t)(alignment - 1));
  if (data == end) data -= alignment;
  *note_of(data) = (uint64_t)size << 16 | (uint64_t)((data - begin) / kPage);
  return data;
}

static void* allocate(size_t alignment, size_t size) {
  if (!is_enabled || size >= kLargest) return __libc_memalign(alignment, size);
  return fence_allocate(size, alignment > 64 ? alignment : kAlignment);
}

void free(void* data) {
  if (!is_ours(data)) {
    __libc_free(data);
    return;
  }
  const uint64_t note = *note_of(data);
  const size_t page = ((char*)data - arena) / kPage;
  char* const begin = arena + (page - (note & 0xffff)) * kPage;
  const size_t size =
      (size_t)(((char*)data + (note >> 16)) - begin + kPage - 1) & ~(size_t)(kPage - 1);
  madvise(begin, size ? size : kPage, MADV_DONTNEED);
  mprotect(begin, size ? size : kPage, PROT_NONE);
}

void* malloc(size_t size) { return is_enabled ? allocate(kAlignment, size) : __libc_malloc(size); }

void* calloc(size_t count, size_t size) {
  size_t all;
  if (!is_enabled || __builtin_mul_overflow(count, size, &all) || all >= kLargest) {
    return __libc_calloc(count, size);
  }
  void* const data = fence_allocate(all, kAlignment);
  return data ? memset(data, 0, all) : 0;
}

void* realloc(void* data, size_t size) {
  if (!is_ours(data) && (data || !is_enabled)) return __libc_realloc(data, size);
  void* const moved = malloc(size);
  if (moved && data) {
    const size_t old = *note_of(data) >> 16;
    memcpy(moved, data, old < size ? old : size);
    free(data);
  }
  return moved;
}

void* memalign(size_t alignment, size_t size) { return allocate(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return allocate(alignment, size); }

int posix_memalign(void** data, size_t alignment, size_t size) {
  *data = allocate(alignment, size);
  return *data ? 0 : ENOMEM;
}

size_t malloc_usable_size(void* data) {
  static size_t (*next)(void*);
  if (is_ours(data)) return *note_of(data) >> 16;
  if (!next) next = (size_t (*)(void*))dlsym(RTLD_NEXT, "malloc_usable_size");
  return next(data);
}
