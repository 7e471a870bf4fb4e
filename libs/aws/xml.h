// Answers in XML, as values that own what they say. What is not there reads as empty; nothing throws.
//
// Thread-safe once made.

#ifndef ADAPTDL_LIBS_AWS_XML_H_
#define ADAPTDL_LIBS_AWS_XML_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pugixml.hpp"

namespace adaptdl::aws {

// An element of a document, or none. Cheap to copy; it keeps its document.
class XmlElement {
 public:
  XmlElement() = default;

  // The element of this name within; none if it is not there. `path` may go further down: "placement/availabilityZone".
  XmlElement At(absl::string_view path) const;
  // The text at the path; "" if it is not there. Without a path: its own.
  std::string Text(absl::string_view path = "") const;
  // 0 if it is not there, or no number.
  int Integer(absl::string_view path) const;
  // All elements of this name that are directly within what is at the path: Items("reservationSet").
  std::vector<XmlElement> Items(absl::string_view path, absl::string_view name = "item") const;
  absl::string_view name() const { return node_.name(); }
  explicit operator bool() const { return static_cast<bool>(node_); }

 private:
  friend absl::StatusOr<XmlElement> ParseXml(absl::string_view text);
  XmlElement(std::shared_ptr<const pugi::xml_document> document, pugi::xml_node node)
      : document_(std::move(document)), node_(node) {}

  std::shared_ptr<const pugi::xml_document> document_;
  pugi::xml_node node_;
};

// The document's outermost element. UNKNOWN: the text is no XML.
absl::StatusOr<XmlElement> ParseXml(absl::string_view text);

}  // namespace adaptdl::aws

#endif  // ADAPTDL_LIBS_AWS_XML_H_
