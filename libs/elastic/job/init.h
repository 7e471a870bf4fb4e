// How a program becomes a replica, in whatever process it lives (adaptdl::Init() is that of ProcessHost()).

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_INIT_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_INIT_H_

#include <memory>

#include "adaptdl/job.h"
#include "libs/elastic/control/environment.h"
#include "libs/elastic/host/host.h"

namespace adaptdl::elastic {

// As adaptdl::InitProcessGroup(), with `given` for what the program knows itself. Errors end the process by
// host->Exit().
std::unique_ptr<Job> InitOn(std::shared_ptr<Host> host, const ProcessGroup& given);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_INIT_H_
