// Copies of training state into snapshots: larger than the caches, and not read again soon. Stores that go
// past the caches need not read the destination first, which spares a third of the traffic and leaves the
// caches to the training; memcpy() does so from some hundred megabytes on only, and no tensor is that large.
//
// Thread-safety: pure functions of their arguments.

#ifndef ADAPTDL_LIBS_ELASTIC_CHECKPOINT_STREAMING_COPY_H_
#define ADAPTDL_LIBS_ELASTIC_CHECKPOINT_STREAMING_COPY_H_

#include <cstddef>

namespace adaptdl::elastic {

// As memcpy().
void StreamingCopy(void* to, const void* from, size_t bytes);

// Asks for huge pages for memory that was allocated and not touched yet: fewer page faults, and fewer misses
// in the address translation. Small memory stays as it is.
void PreferHugePages(void* begin, size_t bytes);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CHECKPOINT_STREAMING_COPY_H_
