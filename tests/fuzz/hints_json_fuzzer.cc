// Hints as programs of AdaptDL's Python package send them: any bytes are read as JSON, and what can be read
// is validated as all hints are.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "services/supervisor/calls/validation.h"
#include "services/supervisor/http/hints_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto hints =
      adaptdl::supervisor::HintsFromJson(absl::string_view(reinterpret_cast<const char*>(data), size));
  if (hints.ok()) adaptdl::supervisor::ValidateHints(*hints).IgnoreError();
  return 0;
}
