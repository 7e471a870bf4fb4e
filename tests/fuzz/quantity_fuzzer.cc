// Quantities: what is accepted is a number from 0, and whole cores are the same however they are read.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "libs/jobfile/quantity.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace jobfile = adaptdl::jobfile;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto millis = jobfile::ParseCpuMillis(text);
  const auto bytes = jobfile::ParseBytes(text);
  const auto count = jobfile::ParseCount(text);
  for (const auto& value : {millis, bytes, count}) {
    if (value.ok() && *value < 0) std::abort();
  }
  if (count.ok() && millis.ok() && *millis != *count * 1000) std::abort();
  if (count.ok() && (!bytes.ok() || *bytes != *count)) std::abort();
  return 0;
}
