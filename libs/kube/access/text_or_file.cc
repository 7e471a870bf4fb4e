#include "libs/kube/access/text_or_file.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"

namespace adaptdl::kube {
namespace {

constexpr int64_t kMaxSecretBytes = int64_t{1} << 20;

}  // namespace

absl::StatusOr<std::string> TextOrFile::Read() const {
  if (path.empty()) return text;
  absl::StatusOr<std::string> content = ReadWholeFile(path, kMaxSecretBytes);
  // Its own code would look like one of the API server.
  if (!content.ok()) return absl::UnauthenticatedError(content.status().message());
  if (content->empty()) return absl::UnauthenticatedError(absl::StrCat(path, " is empty"));
  return content;
}

}  // namespace adaptdl::kube
