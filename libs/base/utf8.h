// Text as it may stand in messages and records: valid UTF-8, of bounded length. A protobuf string that is
// none can be written, but never be read again.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_BASE_UTF8_H_
#define ADAPTDL_LIBS_BASE_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl {

// Whether all of it is UTF-8 (RFC 3629: no surrogates, no overlong forms, nothing above U+10FFFF).
bool IsUtf8(absl::string_view text);

// The longest beginning of `text` that has at most `limit` bytes and does not end within a character. Of text
// that is no UTF-8, at least `limit` - 3 bytes.
absl::string_view CutUtf8(absl::string_view text, size_t limit);

// `text` as valid UTF-8 of at most `limit` bytes: U+FFFD stands for each byte that belongs to no character.
std::string ToUtf8(absl::string_view text, size_t limit = std::string::npos);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_UTF8_H_
