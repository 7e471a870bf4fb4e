// Pool files as anybody may write them.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "libs/poolfile/pool_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view content(reinterpret_cast<const char*>(data), size);
  (void)adaptdl::poolfile::ParsePoolFile(content, "fuzzed.yaml");
  return 0;
}
