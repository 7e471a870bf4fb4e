#include "cli/top/keys.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace adaptdl::cli {
namespace {

constexpr char kEscapeByte = '\x1b';

struct Sequence {
  absl::string_view bytes;
  KeyCode code;
};

// Of terminals in either of their modes.
constexpr Sequence kSequences[] = {
    {"[A", KeyCode::kUp},      {"OA", KeyCode::kUp},        {"[B", KeyCode::kDown},  {"OB", KeyCode::kDown},
    {"[5~", KeyCode::kPageUp}, {"[6~", KeyCode::kPageDown}, {"[H", KeyCode::kHome},  {"OH", KeyCode::kHome},
    {"[1~", KeyCode::kHome},   {"[F", KeyCode::kEnd},       {"OF", KeyCode::kEnd},   {"[4~", KeyCode::kEnd},
    {"[D", KeyCode::kEscape},  {"OD", KeyCode::kEscape},    {"[C", KeyCode::kEnter}, {"OC", KeyCode::kEnter},
};

// Takes the sequence behind an escape from the front of `bytes`.
KeyCode TakeSequence(absl::string_view* bytes) {
  for (const Sequence& sequence : kSequences) {
    if (!absl::StartsWith(*bytes, sequence.bytes)) continue;
    bytes->remove_prefix(sequence.bytes.size());
    return sequence.code;
  }
  if (bytes->empty() || (bytes->front() != '[' && bytes->front() != 'O')) return KeyCode::kEscape;
  // One that we don't know ends with a letter or a tilde.
  size_t end = 1;
  while (end < bytes->size() && (*bytes)[end] < '@') ++end;
  bytes->remove_prefix(std::min(end + 1, bytes->size()));
  return KeyCode::kOther;
}

// How many bytes the character at the front has, as its first one says.
size_t CharacterBytes(absl::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes.front());
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return std::min(length, bytes.size());
}

}  // namespace

std::vector<Key> DecodeKeys(absl::string_view bytes) {
  std::vector<Key> keys;
  while (!bytes.empty()) {
    const char first = bytes.front();
    if (first == kEscapeByte) {
      bytes.remove_prefix(1);
      keys.push_back({.code = TakeSequence(&bytes)});
      continue;
    }
    const size_t length = CharacterBytes(bytes);
    Key key{.code = KeyCode::kText, .text = std::string(bytes.substr(0, length))};
    if (first == '\r' || first == '\n') key = {.code = KeyCode::kEnter};
    if (first == '\x7f' || first == '\b') key = {.code = KeyCode::kBackspace};
    if (key.code == KeyCode::kText && static_cast<unsigned char>(first) < 0x20) key = {};
    keys.push_back(key);
    bytes.remove_prefix(length);
  }
  return keys;
}

}  // namespace adaptdl::cli
