#include "cli/text_width.h"

#include <locale.h>
#include <wchar.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace adaptdl::cli {
namespace {

constexpr char kEllipsis[] = "…";

// The C library knows widths by the locale of the thread, which here need not be the user's.
class Utf8Thread {
 public:
  Utf8Thread() {
    static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    if (locale != nullptr) before_ = uselocale(locale);
  }
  ~Utf8Thread() {
    if (before_ != nullptr) uselocale(before_);
  }
  Utf8Thread(const Utf8Thread&) = delete;
  Utf8Thread& operator=(const Utf8Thread&) = delete;

 private:
  locale_t before_ = nullptr;
};

struct Character {
  size_t bytes;
  int width;
};

// The first one of `text`, which is not empty.
Character FirstOf(absl::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return {1, 1};
  mbstate_t state = {};
  wchar_t character = 0;
  const size_t bytes = mbrtowc(&character, text.data(), text.size(), &state);
  if (bytes == 0 || bytes > text.size()) return {1, 1};
  const int width = wcwidth(character);
  // Newer characters than the C library knows take one, as far as anybody can say.
  return {bytes, width < 0 ? 1 : width};
}

}  // namespace

int DisplayWidth(absl::string_view text) {
  const Utf8Thread utf8;
  int width = 0;
  while (!text.empty()) {
    const Character character = FirstOf(text);
    width += character.width;
    text.remove_prefix(character.bytes);
  }
  return width;
}

std::string Shortened(absl::string_view text, int width) {
  if (width <= 0) return "";
  if (DisplayWidth(text) <= width) return std::string(text);
  const Utf8Thread utf8;
  size_t end = 0;
  int used = 0;
  while (end < text.size()) {
    const Character character = FirstOf(text.substr(end));
    if (used + character.width > width - 1) break;
    used += character.width;
    end += character.bytes;
  }
  return absl::StrCat(text.substr(0, end), kEllipsis);
}

std::string Fitted(absl::string_view text, int width) {
  std::string result = Shortened(text, width);
  result.append(std::max(0, width - DisplayWidth(result)), ' ');
  return result;
}

}  // namespace adaptdl::cli
