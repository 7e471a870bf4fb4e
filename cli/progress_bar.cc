#include "cli/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/format.h"

namespace adaptdl::cli {
namespace {

constexpr int kBarWidth = 24;
constexpr absl::Duration kBetweenUpdates = absl::Milliseconds(200);

void WriteToTerminal(absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

std::string ProgressLine(absl::string_view what, int64_t done, int64_t total, absl::Duration elapsed,
                         int width) {
  const double part =
      total <= 0 ? 1 : std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const int filled = static_cast<int>(part * kBarWidth);
  std::string bar(filled, '=');
  if (filled < kBarWidth) bar += '>';
  bar.resize(kBarWidth, ' ');
  std::string line = absl::StrFormat("%s [%s] %3.0f%%  %s of %s", what, bar, part * 100, FormatBytes(done),
                                     FormatBytes(total));
  const double seconds = absl::ToDoubleSeconds(elapsed);
  if (seconds > 0 && done > 0) {
    const double speed = static_cast<double>(done) / seconds;
    absl::StrAppend(&line, ", ", FormatBytes(static_cast<int64_t>(speed)), "/s, ",
                    DurationText(absl::Seconds(static_cast<double>(total - done) / speed)), " left");
  }
  if (static_cast<int>(line.size()) > width) line.resize(std::max(width, 0));
  return line;
}

ProgressBar::ProgressBar(const Context& context, std::string what, int64_t total)
    : clock_(context.clock),
      what_(std::move(what)),
      total_(total),
      // A line that is full would go on in the next one.
      width_(context.width - 1),
      terminal_(isatty(STDERR_FILENO) == 1),
      begin_(clock_->Steady()),
      next_(begin_ + kPatience) {}

ProgressBar::~ProgressBar() {
  if (shown_) WriteToTerminal(absl::StrCat("\r", std::string(std::max(width_, 0), ' '), "\r"));
}

void ProgressBar::Set(int64_t done) {
  if (!terminal_) return;
  const absl::Time now = clock_->Steady();
  if (now < next_) return;
  next_ = now + kBetweenUpdates;
  shown_ = true;
  std::string line = ProgressLine(what_, done, total_, now - begin_, width_);
  line.resize(std::max<size_t>(line.size(), std::max(width_, 0)), ' ');
  WriteToTerminal(absl::StrCat("\r", line));
}

}  // namespace adaptdl::cli
