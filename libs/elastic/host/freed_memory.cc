#include "libs/elastic/host/freed_memory.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "libs/elastic/control/environment.h"

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#include <malloc.h>
#endif

namespace adaptdl::elastic {
#ifdef __GLIBC__
namespace {

// The largest threshold that glibc takes.
constexpr int kMmapThreshold = 32 << 20;
// By which the heap grows at least.
constexpr int kTopPad = 16 << 20;
// Any.
constexpr int kNeverTrim = -1;

bool UserHasSetMalloc(const GetVariable& get) {
  for (const char* name :
       {"MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"}) {
    if (get(name)) return true;
  }
  return absl::StrContains(get("GLIBC_TUNABLES").value_or(""), "glibc.malloc.");
}

// Not that of a library which was preloaded or linked in (jemalloc, tcmalloc, a sanitizer's).
bool MallocIsGlibc() {
  Dl_info of_malloc = {};
  Dl_info of_libc = {};
  void* const malloc_found = dlsym(RTLD_DEFAULT, "malloc");
  return malloc_found != nullptr && dladdr(malloc_found, &of_malloc) != 0 &&
         dladdr(reinterpret_cast<void*>(&gnu_get_libc_version), &of_libc) != 0 &&
         of_malloc.dli_fbase == of_libc.dli_fbase;
}

}  // namespace

bool KeepFreedMemory(const GetVariable& get) {
  if (UserHasSetMalloc(get) || !MallocIsGlibc()) return false;
  // NOLINTBEGIN(concurrency-mt-unsafe): glibc locks its arenas for it
  return mallopt(M_MMAP_THRESHOLD, kMmapThreshold) != 0 && mallopt(M_TRIM_THRESHOLD, kNeverTrim) != 0 &&
         mallopt(M_TOP_PAD, kTopPad) != 0;
  // NOLINTEND(concurrency-mt-unsafe)
}
#else
bool KeepFreedMemory(const GetVariable&) { return false; }
#endif

}  // namespace adaptdl::elastic
