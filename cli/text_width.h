// How wide texts are on a terminal. Plain functions on UTF-8, thread-safe.

#ifndef ADAPTDL_CLI_TEXT_WIDTH_H_
#define ADAPTDL_CLI_TEXT_WIDTH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl::cli {

// Columns that `text` takes on a terminal: two for each ideograph, none for accents that stand by themselves. Bytes that
// are no UTF-8 count as one each.
int DisplayWidth(absl::string_view text);

// `text`, or its beginning with "…" behind, so that it takes no more than `width` columns.
std::string Shortened(absl::string_view text, int width);

// `text`, shortened or filled up with blanks to `width` columns.
std::string Fitted(absl::string_view text, int width);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_TEXT_WIDTH_H_
