#include "libs/service/flags.h"

#include <cmath>
#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Error.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Option.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace adaptdl::service {
namespace {

constexpr char kPrefix[] = "ADAPTDL_SERVER_";

struct Unit {
  absl::string_view suffix;
  double bytes;
};

// Those with two letters first: "Ki" ends in no other, but "iB" is no unit.
constexpr Unit kUnits[] = {{"Ki", 1024.0},
                           {"Mi", 1024.0 * 1024},
                           {"Gi", 1024.0 * 1024 * 1024},
                           {"Ti", 1024.0 * 1024 * 1024 * 1024},
                           {"K", 1e3},
                           {"k", 1e3},
                           {"M", 1e6},
                           {"G", 1e9},
                           {"T", 1e12},
                           {"B", 1}};

absl::Duration DurationOrThrow(const std::string& name, const std::string& text, absl::Duration minimum) {
  absl::Duration parsed;
  if (!absl::ParseDuration(text, &parsed) || parsed == absl::InfiniteDuration() ||
      parsed == -absl::InfiniteDuration()) {
    throw CLI::ValidationError(
        name, absl::StrCat("\"", text,
                           "\" is no time span: write a number and a unit, for example 60s, 500ms or 1h30m"));
  }
  if (parsed < minimum) {
    throw CLI::ValidationError(
        name, absl::StrCat("\"", text, "\" is too short: at least ", absl::FormatDuration(minimum)));
  }
  return parsed;
}

int64_t BytesOrThrow(const std::string& name, const std::string& text, int64_t minimum) {
  const absl::StatusOr<int64_t> parsed = ParseBytes(text);
  if (!parsed.ok()) throw CLI::ValidationError(name, std::string(parsed.status().message()));
  if (*parsed < minimum) {
    throw CLI::ValidationError(name,
                               absl::StrCat("\"", text, "\" is too small: at least ", minimum, " bytes"));
  }
  return *parsed;
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  absl::string_view number = text;
  double factor = 1;
  for (const Unit& unit : kUnits) {
    if (absl::ConsumeSuffix(&number, unit.suffix)) {
      factor = unit.bytes;
      break;
    }
  }
  double value = 0;
  // SimpleAtod also takes "inf", "nan", signs, exponents and blanks around.
  const bool plain = !number.empty() && number.find_first_not_of("0123456789.") == absl::string_view::npos;
  if (!plain || !absl::SimpleAtod(number, &value)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text,
        "\" is no number of bytes: write a number and a unit, for example 512, 64Ki, 4Mi or 1.5G"));
  }
  const double bytes = std::round(value * factor);
  if (bytes >= 9.2e18) return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is too large"));
  return static_cast<int64_t>(bytes);
}

CLI::Option* AddDurationFlag(CLI::App& app, const std::string& name, absl::Duration* value,
                             const std::string& help, absl::Duration minimum) {
  CLI::Option* option = app.add_option_function<std::string>(
      name, [=](const std::string& text) { *value = DurationOrThrow(name, text, minimum); }, help);
  option->type_name("DURATION")->default_str(absl::FormatDuration(*value));
  return ReadFromEnvironment(option);
}

CLI::Option* AddBytesFlag(CLI::App& app, const std::string& name, int64_t* value, const std::string& help,
                          int64_t minimum) {
  CLI::Option* option = app.add_option_function<std::string>(
      name, [=](const std::string& text) { *value = BytesOrThrow(name, text, minimum); }, help);
  option->type_name("BYTES")->default_str(absl::StrCat(*value));
  return ReadFromEnvironment(option);
}

CLI::Option* ReadFromEnvironment(CLI::Option* option) {
  const std::string name = option->get_lnames().empty() ? option->get_name() : option->get_lnames().front();
  return option->envname(
      absl::StrCat(kPrefix, absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"--", ""}, {"-", "_"}}))));
}

void ReadAllFromEnvironment(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option == app.get_help_ptr() || option->check_lname("version") || option->get_lnames().empty())
      continue;
    if (option->get_envname().empty()) ReadFromEnvironment(option);
  }
}

}  // namespace adaptdl::service
