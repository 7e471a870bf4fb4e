#include "libs/base/version.h"

namespace adaptdl {

const char* Version() { return ADAPTDL_VERSION; }

}  // namespace adaptdl
