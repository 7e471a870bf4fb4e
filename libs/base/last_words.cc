#include "libs/base/last_words.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/utf8.h"

namespace adaptdl {
namespace {

using Lines = std::vector<absl::string_view>;

bool IsBlank(absl::string_view line) { return absl::StripAsciiWhitespace(line).empty(); }

// The last of the lines that `is_it`; end() if there is none.
template <typename Predicate>
Lines::const_iterator FindLast(const Lines& lines, Predicate is_it) {
  const auto found = std::find_if(lines.rbegin(), lines.rend(), is_it);
  return found == lines.rend() ? lines.end() : std::prev(found.base());
}

// More of them behind a Python exception than it has of its own: the program has caught it, and went on.
constexpr int kMostLinesBehind = 10;

// Below a traceback, whose own lines are indented.
Lines::const_iterator FindPythonException(const Lines& lines) {
  const auto traceback = FindLast(lines, [](absl::string_view line) {
    return absl::StartsWith(line, "Traceback (most recent call last)");
  });
  if (traceback == lines.end()) return traceback;
  const auto exception = std::find_if(std::next(traceback), lines.end(), [](absl::string_view line) {
    return !IsBlank(line) && !absl::ascii_isspace(static_cast<unsigned char>(line.front()));
  });
  const auto behind =
      std::count_if(exception, lines.end(), [](absl::string_view line) { return !IsBlank(line); });
  return behind > 1 + kMostLinesBehind ? lines.end() : exception;
}

Lines::const_iterator FindCppException(const Lines& lines) {
  return FindLast(lines, [](absl::string_view line) {
    return absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "what():");
  });
}

// Without colours and other sequences for terminals (ECMA-48, 5.4: ESC [, parameters, one byte from @ to ~), and
// other control characters.
std::string Plain(absl::string_view line) {
  std::string plain;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      i += 2;
      while (i < line.size() && (line[i] < '@' || line[i] > '~')) ++i;
    } else {
      plain += absl::ascii_iscntrl(static_cast<unsigned char>(line[i])) ? ' ' : line[i];
    }
  }
  return plain;
}

std::string Shortened(std::string text, size_t limit) {
  constexpr absl::string_view kEllipsis = "…";
  text = ToUtf8(text);
  if (text.size() <= limit) return text;
  return absl::StrCat(CutUtf8(text, limit - std::min(limit, kEllipsis.size())), kEllipsis);
}

}  // namespace

std::string LastWords(absl::string_view text, size_t limit) {
  const Lines lines = absl::StrSplit(text, '\n');
  auto line = std::max(FindPythonException(lines), FindCppException(lines),
                       [&](auto a, auto b) { return b != lines.end() && (a == lines.end() || a < b); });
  if (line == lines.end()) line = FindLast(lines, [](absl::string_view each) { return !IsBlank(each); });
  if (line == lines.end()) return "";
  return Shortened(std::string(absl::StripAsciiWhitespace(Plain(*line))), limit);
}

}  // namespace adaptdl
