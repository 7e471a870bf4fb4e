#include "cli/output.h"

#include <cstdio>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/util/json_util.h"

namespace adaptdl::cli {
namespace {

// Scalars and empty containers: JSON is YAML there, and JSON's quotes keep texts texts.
std::string ScalarYaml(const Json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool IsBlock(const Json& json) { return (json.is_object() || json.is_array()) && !json.empty(); }

std::string KeyYaml(const std::string& key) {
  bool plain = !key.empty() && absl::ascii_isalpha(key[0]);
  for (const char c : key) plain = plain && absl::ascii_isalnum(c);
  // Words that YAML 1.1 reads as truth values must not lose their quotes.
  for (const absl::string_view word : {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}) {
    plain = plain && absl::AsciiStrToLower(key) != word;
  }
  return plain ? key : ScalarYaml(key);
}

// Appends the block; the first line continues the line begun, when `inline_first` is set.
void AppendYaml(const Json& json, int indent, bool inline_first, std::string* out) {
  if (!IsBlock(json)) {
    absl::StrAppend(out, ScalarYaml(json), "\n");
    return;
  }
  bool pad = !inline_first;
  for (const auto& [key, value] : json.items()) {
    if (pad) out->append(indent, ' ');
    pad = true;
    if (json.is_array()) {
      out->append("- ");
      AppendYaml(value, indent + 2, true, out);
      continue;
    }
    absl::StrAppend(out, KeyYaml(key), ":");
    if (IsBlock(value)) {
      out->push_back('\n');
      AppendYaml(value, indent + 2, false, out);
    } else {
      absl::StrAppend(out, " ", ScalarYaml(value), "\n");
    }
  }
}

}  // namespace

Json ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return Json();
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string ToYaml(const Json& json) {
  std::string out;
  AppendYaml(json, 0, false, &out);
  return out;
}

void PrintDocument(const Context& context, const Json& json) {
  if (context.format == Format::kYaml) {
    Print(ToYaml(json));
  } else {
    Print(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
}

void PrintStreamed(const Context& context, const Json& json) {
  Print(absl::StrCat(context.format == Format::kYaml ? "- " : "", ScalarYaml(json), "\n"));
}

bool Print(absl::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

void Note(absl::string_view text) {
  const std::string line = absl::StrCat(text, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace adaptdl::cli
