#include "libs/archive/paths.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace adaptdl::archive {

std::string WrongWithPath(absl::string_view path) {
  if (path.empty()) return "is empty";
  if (path.size() > kMaxPathBytes) return "is too long";
  if (path.front() == '/') return "is absolute";
  if (absl::StrContains(path, '\0')) return "holds a NUL byte";
  if (std::count(path.begin(), path.end(), '/') > kMaxDepth) return "is too deep";
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == ".") return "has a part that is empty or \".\"";
    if (part == "..") return "holds \"..\"";
    if (part.size() > kMaxNameBytes) return "has a part that is too long";
  }
  return "";
}

std::string WrongWithLink(absl::string_view path, absl::string_view target) {
  if (target.empty()) return "leads nowhere";
  if (target.size() > kMaxPathBytes) return "has a target that is too long";
  if (target.front() == '/') return "leads to an absolute path, and so out of the folder";
  if (absl::StrContains(target, '\0')) return "has a target with a NUL byte";
  auto left = std::count(path.begin(), path.end(), '/');
  bool down = false;
  for (const absl::string_view part : absl::StrSplit(target, '/')) {
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      down = true;
      continue;
    }
    // Where a link on the way leads, ".." after it leads from there.
    if (down) return "has \"..\" after a name in its target, which may lead out of the folder";
    if (left-- == 0) return "leads out of the folder";
  }
  return "";
}

}  // namespace adaptdl::archive
