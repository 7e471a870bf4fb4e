// Lets glibc's malloc keep the memory that the program frees. A training step on the CPU frees its
// activations and gradients, and the next one wants as much again: by default glibc hands large blocks back
// to the kernel each time, and getting them anew, page by page, can take a third of the step. Kept memory is
// used again, so that a process stays at the most that it ever needed.
//
// Thread-safety: to be called before threads allocate much; malloc's own otherwise.

#ifndef ADAPTDL_LIBS_ELASTIC_HOST_FREED_MEMORY_H_
#define ADAPTDL_LIBS_ELASTIC_HOST_FREED_MEMORY_H_

#include "libs/elastic/control/environment.h"

namespace adaptdl::elastic {

// For the whole process, for good. False, and nothing is changed: the user has set one of glibc's own
// variables for malloc (MALLOC_..._, or glibc.malloc in GLIBC_TUNABLES), or malloc is not glibc's.
bool KeepFreedMemory(const GetVariable& get);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_HOST_FREED_MEMORY_H_
