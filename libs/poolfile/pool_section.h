// One entry of "pools". Thread-safe: a plain function.

#ifndef ADAPTDL_LIBS_POOLFILE_POOL_SECTION_H_
#define ADAPTDL_LIBS_POOLFILE_POOL_SECTION_H_

#include <string>

#include "libs/jobfile/checker.h"
#include "libs/jobfile/document.h"
#include "libs/poolfile/pool_file.h"

namespace adaptdl::poolfile {

// Reads the map at `path` ("pools[1]").
Pool ReadPool(const jobfile::Node& map, const std::string& path, jobfile::Problems* problems);

}  // namespace adaptdl::poolfile

#endif  // ADAPTDL_LIBS_POOLFILE_POOL_SECTION_H_
