// The terminal of a program that fills it: keys without Enter, another screen than the one that was there, no cursor. What
// was there is back when the program ends, however it does: also by a signal, also by a crash, and while it is stopped
// (Ctrl-Z).
//
// There may be one at a time in a process; for one thread, but for Wake(). Signals that end the process are the
// terminal's while it lives.

#ifndef ADAPTDL_CLI_TOP_TERMINAL_H_
#define ADAPTDL_CLI_TOP_TERMINAL_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/top/frame.h"

namespace adaptdl::cli {

class Terminal {
 public:
  // FAILED_PRECONDITION: standard input and output are no terminal.
  static absl::StatusOr<std::unique_ptr<Terminal>> Open();
  // The screen that was there is back.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  TopSize size() const;
  void Draw(const std::vector<std::string>& lines) const;
  // Waits until there are keys, whose bytes it returns, or until there is something to draw: a wake, another size, or
  // that so much time has passed; then the text is empty. Absent: nobody is at the terminal any more.
  std::optional<std::string> Wait(absl::Duration longest) const;
  // Ends a Wait(). Thread-safe.
  void Wake() const;

 private:
  Terminal() = default;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_TOP_TERMINAL_H_
