#include "services/supervisor/calls/pages.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::supervisor {
namespace {

constexpr int kDefaultPageSize = 100;
constexpr int kMaxPageSize = 1000;

}  // namespace

std::string NamespaceOr(const std::string& name_space) { return name_space.empty() ? "default" : name_space; }

absl::StatusOr<int64_t> ParsePageToken(const std::string& token) {
  if (token.empty()) return 0;
  int64_t value = 0;
  if (absl::SimpleAtoi(token, &value) && value > 0) return value;
  return absl::InvalidArgumentError("page_token: is none of ours; give next_page_token of the page before");
}

absl::StatusOr<int> ParsePageSize(int page_size) {
  if (page_size < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size: ", page_size, ": give a number from 0 to 1000"));
  }
  return page_size == 0 ? kDefaultPageSize : std::min(page_size, kMaxPageSize);
}

}  // namespace adaptdl::supervisor
