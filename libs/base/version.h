// The version of this build. Thread-safe.

#ifndef ADAPTDL_LIBS_BASE_VERSION_H_
#define ADAPTDL_LIBS_BASE_VERSION_H_

namespace adaptdl {

// "major.minor.patch".
const char* Version();

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_VERSION_H_
