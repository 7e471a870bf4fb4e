#include "cli/run/line_prefixer.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace adaptdl::cli {
namespace {

constexpr size_t kLongestLine = 1 << 20;

}  // namespace

std::string LinePrefixer::Add(absl::string_view bytes) {
  std::string lines;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const size_t room = kLongestLine - partial_.size();
    const absl::string_view piece = bytes.substr(0, end < room ? end : room);
    partial_.append(piece.data(), piece.size());
    bytes.remove_prefix(piece.size());
    const bool whole = !bytes.empty() && bytes.front() == '\n';
    if (whole) bytes.remove_prefix(1);
    if (whole || partial_.size() >= kLongestLine) {
      absl::StrAppend(&lines, prefix_, partial_, "\n");
      partial_.clear();
    }
  }
  return lines;
}

std::string LinePrefixer::Finish() {
  if (partial_.empty()) return "";
  std::string line = absl::StrCat(prefix_, partial_, "\n");
  partial_.clear();
  return line;
}

}  // namespace adaptdl::cli
