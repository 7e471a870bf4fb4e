// One line on a terminal that says how far something is, of work that takes longer than people like to wait for nothing.
//
// For one thread.

#ifndef ADAPTDL_CLI_PROGRESS_BAR_H_
#define ADAPTDL_CLI_PROGRESS_BAR_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/context.h"
#include "libs/base/clock.h"

namespace adaptdl::cli {

// "packing   [=====>    ]  52%  1.1Gi of 2Gi, 210Mi/s, 5s left", no wider than `width`. Nothing is left of `elapsed` 0. Of
// a `total` below 0, which is not known: "copying  1.1Gi, 210Mi/s".
std::string ProgressLine(absl::string_view what, int64_t done, int64_t total, absl::Duration elapsed,
                         int width);

// One line on a terminal, on standard error, that changes and goes without a trace. For one thread.
class StatusLine {
 public:
  // Shows something only on a terminal.
  explicit StatusLine(const Context& context);
  // Leaves the line empty.
  ~StatusLine() { Clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // As much of it as there is room for.
  void Set(absl::string_view text);
  void Clear();
  bool is_on_terminal() const { return terminal_; }
  // The most columns of the text.
  int width() const { return width_; }

 private:
  const int width_;
  const bool terminal_;
  bool shown_ = false;
};

class ProgressBar {
 public:
  // Work that is done before this shows nothing.
  static constexpr absl::Duration kPatience = absl::Seconds(2);

  // Shows something only on a terminal. `context`'s clock outlives it. `total`: below 0: it is not known.
  ProgressBar(const Context& context, std::string what, int64_t total);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Of bytes. May go back.
  void Set(int64_t done);

 private:
  const Clock* const clock_;
  const std::string what_;
  const int64_t total_;
  const absl::Time begin_;
  absl::Time next_;
  StatusLine line_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_PROGRESS_BAR_H_
