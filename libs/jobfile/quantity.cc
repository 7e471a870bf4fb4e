#include "libs/jobfile/quantity.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/utf8.h"

namespace adaptdl::jobfile {
namespace {

// Longer texts are no quantity that anybody means; the bound keeps the digit arithmetic short.
constexpr size_t kMaxLength = 64;

// digits * 10^exponent, digits without leading zeros ("" = 0).
struct Decimal {
  std::string digits;
  int exponent = 0;
};

struct Suffix {
  // Multiplies by 10^decimal * 1024^binary.
  int decimal = 0;
  int binary = 0;
};

absl::Status NotAQuantity(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not a quantity; write a number with an optional suffix ",
                   "(n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent), such as 500m or 1.5Gi"));
}

// Returns false if `text` is no suffix.
bool ParseSuffix(absl::string_view text, Suffix* suffix) {
  if (text.empty()) return true;
  constexpr absl::string_view kBinary = "KMGTPE";
  if (text.size() == 2 && text[1] == 'i' && kBinary.find(text[0]) != absl::string_view::npos) {
    suffix->binary = static_cast<int>(kBinary.find(text[0])) + 1;
    return true;
  }
  if (text.size() == 1) {
    constexpr absl::string_view kDecimal = "num kMGTPE";  // the blank stands for 10^0
    const size_t position = kDecimal.find(text[0]);
    if (position == absl::string_view::npos || text[0] == ' ') return false;
    suffix->decimal = 3 * (static_cast<int>(position) - 3);
    return true;
  }
  if (text[0] != 'e' && text[0] != 'E') return false;
  absl::string_view exponent = text.substr(1);
  const bool negative = exponent[0] == '-';
  if (exponent[0] == '-' || exponent[0] == '+') exponent.remove_prefix(1);
  if (exponent.empty() || exponent.size() > 4) return false;
  for (const char c : exponent) {
    if (!absl::ascii_isdigit(c)) return false;
  }
  int value = 0;
  if (!absl::SimpleAtoi(exponent, &value)) return false;
  suffix->decimal = negative ? -value : value;
  return true;
}

void StripLeadingZeros(std::string* digits) { digits->erase(0, digits->find_first_not_of('0')); }

void Multiply(int factor, std::string* digits) {
  int carry = 0;
  for (auto digit = digits->rbegin(); digit != digits->rend(); ++digit) {
    carry += (*digit - '0') * factor;
    *digit = static_cast<char>('0' + carry % 10);
    carry /= 10;
  }
  if (carry > 0) digits->insert(0, absl::StrCat(carry));
}

absl::StatusOr<Decimal> ParseDecimal(absl::string_view text) {
  if (text.size() > kMaxLength) return NotAQuantity(absl::StrCat(CutUtf8(text, kMaxLength), "..."));
  absl::string_view rest = text;
  if (!rest.empty() && rest[0] == '-') {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is negative; write 0 or more"));
  }
  if (!rest.empty() && rest[0] == '+') rest.remove_prefix(1);
  Decimal decimal;
  bool in_fraction = false;
  bool any_digit = false;
  while (!rest.empty() && (absl::ascii_isdigit(rest[0]) || (rest[0] == '.' && !in_fraction))) {
    if (rest[0] == '.') {
      in_fraction = true;
    } else {
      any_digit = true;
      decimal.digits.push_back(rest[0]);
      if (in_fraction) --decimal.exponent;
    }
    rest.remove_prefix(1);
  }
  Suffix suffix;
  if (!any_digit || !ParseSuffix(rest, &suffix)) return NotAQuantity(text);
  StripLeadingZeros(&decimal.digits);
  for (int i = 0; i < suffix.binary; ++i) Multiply(1024, &decimal.digits);
  decimal.exponent += suffix.decimal;
  return decimal;
}

enum class Fraction { kRoundUp, kRefuse };

absl::StatusOr<int64_t> ToInteger(absl::string_view text, int shift, Fraction fraction) {
  absl::StatusOr<Decimal> decimal = ParseDecimal(text);
  if (!decimal.ok()) return decimal.status();
  std::string& digits = decimal->digits;
  const int exponent = decimal->exponent + shift;
  if (digits.empty()) return 0;
  const auto too_large = [&] { return absl::OutOfRangeError(absl::StrCat("\"", text, "\" is too large")); };
  bool round_up = false;
  if (exponent >= 0) {
    if (digits.size() + exponent > 19) return too_large();
    digits.append(exponent, '0');
  } else {
    const size_t cut = static_cast<size_t>(-exponent);
    const size_t kept = digits.size() > cut ? digits.size() - cut : 0;
    round_up = digits.find_first_not_of('0', kept) != std::string::npos;
    digits.resize(kept);
  }
  if (round_up && fraction == Fraction::kRefuse) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a whole number, and this can't be divided"));
  }
  int64_t value = 0;
  if (!digits.empty() && !absl::SimpleAtoi(digits, &value)) return too_large();
  if (round_up && value == std::numeric_limits<int64_t>::max()) return too_large();
  return value + (round_up ? 1 : 0);
}

}  // namespace

absl::StatusOr<int64_t> ParseCpuMillis(absl::string_view text) {
  return ToInteger(text, 3, Fraction::kRoundUp);
}

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) { return ToInteger(text, 0, Fraction::kRoundUp); }

absl::StatusOr<int64_t> ParseCount(absl::string_view text) { return ToInteger(text, 0, Fraction::kRefuse); }

}  // namespace adaptdl::jobfile
