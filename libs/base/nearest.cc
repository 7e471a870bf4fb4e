#include "libs/base/nearest.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace adaptdl {
namespace {

// More are no mistyped name.
constexpr size_t kLongestName = 100;
// Fewer letters are a part of too many names.
constexpr size_t kShortestPart = 3;
constexpr size_t kMostSuggested = 3;

// Levenshtein distance without regard to case.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = absl::ascii_tolower(a[i - 1]) == absl::ascii_tolower(b[j - 1]);
      const size_t replaced = diagonal + (same ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// Those that `name` is a part of.
std::vector<absl::string_view> Wholes(absl::string_view name, const std::vector<absl::string_view>& known) {
  std::vector<absl::string_view> wholes;
  if (name.size() < kShortestPart || name.size() > kLongestName) return wholes;
  for (const absl::string_view candidate : known) {
    if (absl::StrContains(candidate, name)) wholes.push_back(candidate);
  }
  return wholes;
}

std::string Either(const std::vector<absl::string_view>& names, absl::string_view prefix) {
  std::vector<std::string> texts;
  for (const absl::string_view name : names) texts.push_back(absl::StrCat(prefix, name));
  const std::string last = texts.back();
  texts.pop_back();
  return texts.empty() ? last : absl::StrCat(absl::StrJoin(texts, ", "), " or ", last);
}

std::string Question(absl::string_view name, const std::vector<absl::string_view>& known,
                     absl::string_view prefix) {
  std::vector<absl::string_view> meant;
  if (const absl::string_view nearest = Nearest(name, known); !nearest.empty()) meant = {nearest};
  if (meant.empty()) meant = Wholes(name, known);
  if (meant.empty() || meant.size() > kMostSuggested) return "";
  return absl::StrCat("; did you mean ", Either(meant, prefix), "?");
}

}  // namespace

absl::string_view Nearest(absl::string_view name, const std::vector<absl::string_view>& known) {
  if (name.size() > kLongestName) return "";
  absl::string_view best;
  size_t best_distance = std::max<size_t>(2, name.size() / 4) + 1;
  for (const absl::string_view candidate : known) {
    const size_t distance = Distance(name, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string DidYouMean(absl::string_view name, const std::vector<absl::string_view>& known) {
  return Question(name, known, "");
}

std::string DidYouMeanFlag(absl::string_view flag, const std::vector<absl::string_view>& known) {
  std::vector<absl::string_view> names;
  for (absl::string_view candidate : known) {
    if (absl::ConsumePrefix(&candidate, "--")) names.push_back(candidate);
  }
  absl::string_view name = flag.substr(0, flag.find('='));
  while (absl::ConsumePrefix(&name, "-")) {
  }
  // One letter is near to every other one.
  return name.size() < 2 ? "" : Question(name, names, "--");
}

}  // namespace adaptdl
