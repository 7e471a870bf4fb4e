// What a library tells whoever runs its process: lines on standard error, or what a listener makes of them.
//
// One listener per process, and per shared library that holds this code. Thread-safe.

#ifndef ADAPTDL_LIBS_BASE_SAY_H_
#define ADAPTDL_LIBS_BASE_SAY_H_

#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl {

// kNotice: nothing is wrong, but whoever runs it is to know.
enum class Severity { kInfo, kNotice, kWarning, kError };

struct Said {
  Severity severity = Severity::kInfo;
  // The folder of the source that says it: "checkpoint".
  std::string part;
  std::string text;
  // SetSpeaker()'s. Negative: not known.
  int rank = -1;
};

// A line, without its end: "wrote checkpoint-3". `file`: where that is said.
void Say(Severity severity, absl::string_view text, const char* file = __builtin_FILE());

// As Say(), what another library that holds this code has said.
void PassOn(Said said);

// "adaptdl: " and the text, on standard error.
void SayOnStandardError(const Said& said);

// Gets what is said from now on, from any thread. Null: standard error does. It must not wait, and may be
// called for a last time while it is being replaced.
using Listener = void (*)(const Said& said);
void SetListener(Listener listener);

// This process is the replica of that rank.
void SetSpeaker(int rank);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_SAY_H_
