// Division of whole numbers that rounds up.

#ifndef ADAPTDL_LIBS_BASE_CEIL_DIV_H_
#define ADAPTDL_LIBS_BASE_CEIL_DIV_H_

#include <cstdint>

namespace adaptdl {

// a >= 0, b > 0.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_CEIL_DIV_H_
