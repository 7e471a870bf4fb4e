// Whole lines out of a stream of bytes, each with a prefix. Plain functions without I/O; not thread-safe.

#ifndef ADAPTDL_CLI_RUN_LINE_PREFIXER_H_
#define ADAPTDL_CLI_RUN_LINE_PREFIXER_H_

#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace adaptdl::cli {

class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  // The lines that `bytes` complete, with line feeds. A line that gets longer than 1 MiB comes in pieces.
  std::string Add(absl::string_view bytes);

  // The stream has ended: what is left, as a line. "": nothing.
  std::string Finish();

 private:
  const std::string prefix_;
  std::string partial_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_RUN_LINE_PREFIXER_H_
