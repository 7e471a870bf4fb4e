#include "libs/base/utf8.h"

#include <cstdint>
#include <cstring>
#include <string>

namespace adaptdl {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

uint8_t ByteAt(absl::string_view text, size_t index) { return static_cast<uint8_t>(text[index]); }

bool IsContinuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

// Bytes of the character that `text`, which is not empty, begins with. 0: it begins with none.
size_t CharacterBytes(absl::string_view text) {
  const uint8_t first = ByteAt(text, 0);
  if (first < 0x80) return 1;
  size_t bytes = 0;
  // Bounds of the second byte: they keep out overlong forms, surrogates, and what is too large.
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    bytes = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    bytes = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    bytes = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  }
  if (bytes == 0 || text.size() < bytes || ByteAt(text, 1) < low || ByteAt(text, 1) > high) return 0;
  for (size_t i = 2; i < bytes; ++i) {
    if (!IsContinuation(ByteAt(text, i))) return 0;
  }
  return bytes;
}

// Bytes at the beginning of `text` that are ASCII: at least those of its whole words of eight. Almost all
// text is.
size_t AsciiWords(absl::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  size_t bytes = 0;
  for (; bytes + sizeof(uint64_t) <= text.size(); bytes += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + bytes, sizeof(word));
    if ((word & kHighBits) != 0) break;
  }
  return bytes;
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    text.remove_prefix(AsciiWords(text));
    if (text.empty()) break;
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

absl::string_view CutUtf8(absl::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  size_t end = limit;
  constexpr size_t kLongestTail = 3;
  while (end > 0 && limit - end < kLongestTail && IsContinuation(ByteAt(text, end))) --end;
  return text.substr(0, IsContinuation(ByteAt(text, end)) ? limit : end);
}

std::string ToUtf8(absl::string_view text, size_t limit) {
  if (IsUtf8(text)) return std::string(CutUtf8(text, limit));
  std::string result;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    const absl::string_view next = bytes > 0 ? text.substr(0, bytes) : kReplacement;
    if (next.size() > limit - result.size()) break;
    result.append(next.data(), next.size());
    text.remove_prefix(bytes > 0 ? bytes : 1);
  }
  return result;
}

}  // namespace adaptdl
