#include "libs/logs/line_filter.h"

#include <re2/re2.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::logs {
namespace {

// Of a line, what the pattern is looked for in.
constexpr size_t kMaxLine = 1 << 20;
// Of the pattern's program and of what matching keeps.
constexpr int64_t kMaxPatternMemory = 2 << 20;
// Instructions that every character may have to go through.
constexpr int kMaxProgram = 20'000;

// Characters of UTF-8.
size_t CharactersOf(absl::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  return count;
}

absl::StatusOr<std::unique_ptr<re2::RE2>> Compile(const std::string& pattern) {
  if (pattern.empty()) return nullptr;
  if (CharactersOf(pattern) > kMaxPattern) {
    return absl::InvalidArgumentError(
        absl::StrCat("pattern: it has more than ", kMaxPattern, " characters; give a shorter one"));
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kMaxPatternMemory);
  auto compiled = std::make_unique<re2::RE2>(pattern, options);
  if (!compiled->ok()) {
    return absl::InvalidArgumentError(absl::StrCat("pattern: \"", pattern,
                                                   "\" is no regular expression of RE2: ", compiled->error(),
                                                   "; escape what is meant literally by \\"));
  }
  if (compiled->ProgramSize() > kMaxProgram) {
    return absl::InvalidArgumentError(
        absl::StrCat("pattern: \"", pattern, "\" takes too much effort; give one that repeats less"));
  }
  return compiled;
}

}  // namespace

absl::Status CheckPattern(const std::string& pattern) { return Compile(pattern).status(); }

absl::StatusOr<std::unique_ptr<LineFilter>> LineFilter::Create(absl::Time since, const std::string& pattern) {
  absl::StatusOr<std::unique_ptr<re2::RE2>> compiled = Compile(pattern);
  if (!compiled.ok()) return compiled.status();
  return absl::WrapUnique(new LineFilter(since, *std::move(compiled)));
}

LineFilter::LineFilter(absl::Time since, std::unique_ptr<re2::RE2> pattern)
    : since_(since), pattern_(std::move(pattern)) {}

LineFilter::~LineFilter() = default;

bool LineFilter::Matches(absl::string_view text) const {
  return pattern_ == nullptr || re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *pattern_);
}

bool LineFilter::Wants(absl::Time time, absl::string_view text) const {
  return time >= since_ && Matches(text.substr(0, kMaxLine));
}

void LineFilter::Add(v1::LogLine line, Lines* wanted) {
  const auto found = open_.find(line.source());
  if (found == open_.end() && !line.partial()) {
    if (Wants(messages::ToTime(line.time()), line.text())) *wanted->Add() = std::move(line);
    return;
  }
  Open& open = found == open_.end() ? open_[line.source()] : found->second;
  const bool is_first = open.text.empty() && open.parts.empty();
  // A line is as old as its beginning.
  if (is_first && messages::ToTime(line.time()) < since_) open.is_dropped = true;
  const bool has_ended = !line.partial();
  const v1::LogSource source = line.source();
  if (open.is_wanted) {
    *wanted->Add() = std::move(line);
  } else if (!open.is_dropped) {
    absl::StrAppend(&open.text, line.text());
    open.parts.push_back(std::move(line));
    if (has_ended || open.text.size() >= kMaxLine) Decide(&open, wanted);
  }
  if (has_ended) open_.erase(source);
}

void LineFilter::Finish(Lines* wanted) {
  for (auto& [source, open] : open_) {
    if (!open.is_wanted && !open.is_dropped) Decide(&open, wanted);
  }
  open_.clear();
}

void LineFilter::Decide(Open* open, Lines* wanted) const {
  open->is_wanted = Matches(absl::string_view(open->text).substr(0, kMaxLine));
  open->is_dropped = !open->is_wanted;
  if (open->is_wanted) {
    for (v1::LogLine& part : open->parts) *wanted->Add() = std::move(part);
  }
  open->parts.clear();
  open->text.clear();
}

}  // namespace adaptdl::logs
