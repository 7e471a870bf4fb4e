#include "cli/cloud/document_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace adaptdl::cli {
namespace {

using jobfile::Node;

// Numbers, booleans and words: what means the same in the midst of brackets. All else was a text, and is one in quotes.
bool IsPlain(const Node& node) {
  return !node.quoted && !node.text.empty() && absl::ascii_isalnum(node.text.front()) &&
         std::all_of(node.text.begin(), node.text.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '+' || c == '-' || c == '_';
         });
}

std::string InQuotes(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

void Write(const Node& node, int depth, std::string* text) {
  const std::string line = depth < 2 ? absl::StrCat("\n", std::string(depth + 1, ' ')) : "";
  const char* separator = "";
  switch (node.kind) {
    case Node::Kind::kNull:
      absl::StrAppend(text, "null");
      return;
    case Node::Kind::kScalar:
      absl::StrAppend(text, IsPlain(node) ? node.text : InQuotes(node.text));
      return;
    case Node::Kind::kList:
      absl::StrAppend(text, "[");
      for (const Node& item : node.items) {
        absl::StrAppend(text, separator, line);
        Write(item, depth + 1, text);
        separator = ", ";
      }
      absl::StrAppend(text, "]");
      return;
    case Node::Kind::kMap:
      absl::StrAppend(text, "{");
      for (const jobfile::Field& field : node.fields) {
        absl::StrAppend(text, separator, line, InQuotes(field.name), ": ");
        Write(field.value, depth + 1, text);
        separator = ", ";
      }
      absl::StrAppend(text, "}");
      return;
  }
}

}  // namespace

std::string DocumentText(const Node& root) {
  std::string text;
  Write(root, 0, &text);
  absl::StrAppend(&text, "\n");
  return text;
}

}  // namespace adaptdl::cli
