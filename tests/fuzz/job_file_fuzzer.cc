// Job files as anybody may write them.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "libs/jobfile/job_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view content(reinterpret_cast<const char*>(data), size);
  (void)adaptdl::jobfile::ParseJobFile(content, "fuzzed.yaml", {});
  (void)adaptdl::jobfile::ParseJobFile(content, "fuzzed.yaml", {.named_by_caller = true});
  return 0;
}
