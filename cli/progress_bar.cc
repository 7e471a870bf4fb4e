#include "cli/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/format.h"
#include "cli/text_width.h"

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
  const double seconds = absl::ToDoubleSeconds(elapsed);
  const double speed = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  if (total < 0) {
    std::string line = absl::StrCat(what, "  ", FormatBytes(done));
    if (speed > 0) absl::StrAppend(&line, ", ", FormatBytes(static_cast<int64_t>(speed)), "/s");
    return Shortened(line, width);
  }
  const double part =
      total <= 0 ? 1 : std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const int filled = static_cast<int>(part * kBarWidth);
  std::string bar(filled, '=');
  if (filled < kBarWidth) bar += '>';
  bar.resize(kBarWidth, ' ');
  std::string line = absl::StrFormat("%s [%s] %3.0f%%  %s of %s", what, bar, part * 100, FormatBytes(done),
                                     FormatBytes(total));
  if (speed > 0) {
    absl::StrAppend(&line, ", ", FormatBytes(static_cast<int64_t>(speed)), "/s, ",
                    DurationText(absl::Seconds(static_cast<double>(total - done) / speed)), " left");
  }
  if (static_cast<int>(line.size()) > width) line.resize(std::max(width, 0));
  return line;
}

StatusLine::StatusLine(const Context& context)
    // A line that is full would go on in the next one.
    : width_(std::max(context.width - 1, 0)), terminal_(isatty(STDERR_FILENO) == 1) {}

void StatusLine::Set(absl::string_view text) {
  if (!terminal_) return;
  shown_ = true;
  WriteToTerminal(absl::StrCat("\r", Fitted(text, width_)));
}

void StatusLine::Clear() {
  if (shown_) WriteToTerminal(absl::StrCat("\r", std::string(width_, ' '), "\r"));
  shown_ = false;
}

ProgressBar::ProgressBar(const Context& context, std::string what, int64_t total)
    : clock_(context.clock),
      what_(std::move(what)),
      total_(total),
      begin_(clock_->Steady()),
      next_(begin_ + kPatience),
      line_(context) {}

void ProgressBar::Set(int64_t done) {
  if (!line_.is_on_terminal()) return;
  const absl::Time now = clock_->Steady();
  if (now < next_) return;
  next_ = now + kBetweenUpdates;
  line_.Set(ProgressLine(what_, done, total_, now - begin_, line_.width()));
}

}  // namespace adaptdl::cli
