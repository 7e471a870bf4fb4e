// Takes a watch's stream apart: one JSON text a line, in parts as they come. Inside libs/kube/client only.
//
// Not thread-safe.

#ifndef ADAPTDL_LIBS_KUBE_CLIENT_WATCH_DECODER_H_
#define ADAPTDL_LIBS_KUBE_CLIENT_WATCH_DECODER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/kube/client/watch.h"

namespace adaptdl::kube {

class WatchDecoder {
 public:
  // etcd takes no larger object than 1.5 MB by default; JSON may be several times as long.
  static constexpr size_t kMaxLine = size_t{32} << 20;

  explicit WatchDecoder(std::function<void(WatchEvent)> take) : take_(std::move(take)) {}

  // The error that an ERROR event holds; UNKNOWN: the stream is no watch's; OUT_OF_RANGE never means that a
  // line is too long: that is UNKNOWN, too.
  absl::Status Feed(absl::string_view part);

 private:
  absl::Status Line(absl::string_view line);

  const std::function<void(WatchEvent)> take_;
  std::string rest_;
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_CLIENT_WATCH_DECODER_H_
