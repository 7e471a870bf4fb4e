// A text that stands in a configuration, or in a file that it names. The file is read each time: it may be
// replaced at any moment.
//
// Thread-safe once made.

#ifndef ADAPTDL_LIBS_KUBE_ACCESS_TEXT_OR_FILE_H_
#define ADAPTDL_LIBS_KUBE_ACCESS_TEXT_OR_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace adaptdl::kube {

struct TextOrFile {
  std::string text = {};
  // Empty: `text` counts.
  std::string path = {};

  // UNAUTHENTICATED: the file can't be read, or is empty.
  absl::StatusOr<std::string> Read() const;
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_ACCESS_TEXT_OR_FILE_H_
