// The sections of a pool that belong to its provider: "aws", "gcp", "process", "kubernetes".
//
// Thread-safe: plain functions.

#ifndef ADAPTDL_LIBS_POOLFILE_PROVIDER_SECTIONS_H_
#define ADAPTDL_LIBS_POOLFILE_PROVIDER_SECTIONS_H_

#include "libs/jobfile/checker.h"
#include "libs/poolfile/pool_file.h"
#include "libs/poolfile/section.h"

namespace adaptdl::poolfile {

// Reads the section of pool->provider, and refuses what can't go together with it, sections of others included.
void ReadProviderSection(const Section& section, Pool* pool, jobfile::Problems* problems);

}  // namespace adaptdl::poolfile

#endif  // ADAPTDL_LIBS_POOLFILE_PROVIDER_SECTIONS_H_
