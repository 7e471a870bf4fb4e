// What an API server answers: any bytes are a watch's stream, in parts whose sizes they say themselves, and an
// error's body.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "libs/kube/client/errors.h"
#include "libs/kube/client/watch_decoder.h"
#include "libs/kube/json/object.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view rest(reinterpret_cast<const char*>(data), size);
  adaptdl::kube::ErrorOfAnswer(409, rest).IgnoreError();
  adaptdl::kube::WatchDecoder decoder([](adaptdl::kube::WatchEvent event) {
    adaptdl::kube::KeyOf(event.object);
    adaptdl::kube::ControllerOf(event.object);
  });
  while (!rest.empty()) {
    const size_t part = std::min<size_t>(rest.size(), 1 + static_cast<uint8_t>(rest[0]) % 64);
    if (!decoder.Feed(rest.substr(0, part)).ok()) return 0;
    rest.remove_prefix(part);
  }
  return 0;
}
