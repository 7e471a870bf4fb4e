// Unguessable identifiers, from the kernel's random source.

#ifndef ADAPTDL_LIBS_BASE_RANDOM_ID_H_
#define ADAPTDL_LIBS_BASE_RANDOM_ID_H_

#include <string>

namespace adaptdl {

// Lower-case hexadecimal digits of `bytes` random bytes (1 to 256). Thread-safe. Ends the process if the
// kernel has no randomness to give, since nothing safe could follow.
std::string RandomHex(int bytes);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_RANDOM_ID_H_
