#include "libs/aws/xml.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace adaptdl::aws {

XmlElement XmlElement::At(absl::string_view path) const {
  pugi::xml_node node = node_;
  for (const absl::string_view name : absl::StrSplit(path, '/', absl::SkipEmpty()))
    node = node.child(std::string(name).c_str());
  return {document_, node};
}

std::string XmlElement::Text(absl::string_view path) const { return At(path).node_.text().get(); }

int XmlElement::Integer(absl::string_view path) const {
  int number = 0;
  return absl::SimpleAtoi(Text(path), &number) ? number : 0;
}

std::vector<XmlElement> XmlElement::Items(absl::string_view path, absl::string_view name) const {
  std::vector<XmlElement> items;
  const std::string wanted(name);  // outlives the loop, which holds no copy
  for (const pugi::xml_node& node : At(path).node_.children(wanted.c_str()))
    items.push_back({document_, node});
  return items;
}

absl::StatusOr<XmlElement> ParseXml(absl::string_view text) {
  auto document = std::make_shared<pugi::xml_document>();
  // Entities of the document's own are left as they stand: none is a way to make a short text a long one.
  const pugi::xml_parse_result result = document->load_buffer(text.data(), text.size());
  if (!result) {
    return absl::UnknownError(
        absl::StrCat("the answer is not XML: ", result.description(), " at byte ", result.offset));
  }
  const pugi::xml_node root = document->document_element();
  if (!root) return absl::UnknownError("the answer is not XML: it holds no element");
  return XmlElement(std::move(document), root);
}

}  // namespace adaptdl::aws
