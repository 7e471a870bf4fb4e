// A program of its own as the library's host: it ends by exit code, SIGTERM and SIGINT ask it to, and its
// clocks are the machine's. Thread-safe.

#ifndef ADAPTDL_LIBS_ELASTIC_HOST_PROCESS_HOST_H_
#define ADAPTDL_LIBS_ELASTIC_HOST_PROCESS_HOST_H_

#include <memory>

#include "libs/elastic/host/host.h"

namespace adaptdl::elastic {

// The first SIGINT restores the default, so that the second one ends the process at once.
std::shared_ptr<Host> ProcessHost();

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_HOST_PROCESS_HOST_H_
