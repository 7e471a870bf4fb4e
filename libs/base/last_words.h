// What a program that failed said last on its standard error, as far as it tells people why: one line.
//
// Plain function; thread-safe.

#ifndef ADAPTDL_LIBS_BASE_LAST_WORDS_H_
#define ADAPTDL_LIBS_BASE_LAST_WORDS_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl {

// Of the end of what a program wrote: the message of the last exception that nobody caught, in C++ ("what():") or
// Python (below a traceback that is near the end), behind which libraries print where it came from and what could be
// done; else the last line that is not blank. Valid UTF-8 of at most `limit` bytes (at least 3), without control
// characters and colours. Empty: there is no such line.
std::string LastWords(absl::string_view text, size_t limit = 300);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_LAST_WORDS_H_
