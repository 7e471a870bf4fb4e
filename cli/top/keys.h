// What comes from a terminal when keys are pressed. A plain function, thread-safe.

#ifndef ADAPTDL_CLI_TOP_KEYS_H_
#define ADAPTDL_CLI_TOP_KEYS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace adaptdl::cli {

enum class KeyCode {
  kText,
  kEnter,
  kEscape,
  kBackspace,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kOther
};

struct Key {
  KeyCode code = KeyCode::kOther;
  // The character, of kText.
  std::string text = {};
};

// The keys in what was read at once: terminals send the bytes of one key together, so that an escape with nothing behind
// it is the key itself.
std::vector<Key> DecodeKeys(absl::string_view bytes);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_TOP_KEYS_H_
