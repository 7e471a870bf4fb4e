#include "libs/elastic/checkpoint/streaming_copy.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace adaptdl::elastic {

#ifdef __SSE2__
void StreamingCopy(void* to, const void* from, size_t bytes) {
  constexpr size_t kLine = 64;
  // How far ahead of the reads the caches are told.
  constexpr size_t kAhead = 8 * kLine;
  // Below, what is spared does not pay for the fence.
  constexpr size_t kSmallest = 4096;
  if (bytes < kSmallest) {
    std::memcpy(to, from, bytes);
    return;
  }
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  const size_t head = (kLine - reinterpret_cast<uintptr_t>(out) % kLine) % kLine;
  std::memcpy(out, in, head);
  size_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(in + at);
    auto* target = reinterpret_cast<__m128i*>(out + at);
    _mm_prefetch(in + std::min(at + kAhead, bytes - 1), _MM_HINT_NTA);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  // Such stores are not ordered with those that hand the snapshot over.
  _mm_sfence();
  std::memcpy(out + at, in + at, bytes - at);
}
#else
void StreamingCopy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
#endif

void PreferHugePages(void* begin, size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(begin) + bytes) / kHugePage * kHugePage;
  // Where there are none, all is as it was.
  if (first < end) (void)madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

}  // namespace adaptdl::elastic
