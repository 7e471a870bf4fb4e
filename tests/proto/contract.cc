#include "tests/proto/contract.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.pb.h"

namespace adaptdl::proto {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::OneofDescriptor;
using google::protobuf::ServiceDescriptor;

std::string TypeName(const FieldDescriptor& field) {
  if (field.is_map()) {
    const Descriptor& entry = *field.message_type();
    return absl::StrCat("map<", TypeName(*entry.map_key()), ", ", TypeName(*entry.map_value()), ">");
  }
  if (field.message_type() != nullptr) return field.message_type()->full_name();
  if (field.enum_type() != nullptr) return field.enum_type()->full_name();
  return field.type_name();
}

std::string FieldLine(const FieldDescriptor& field) {
  std::string line = absl::StrCat("field ", field.full_name(), " : ", field.number(), " ");
  if (field.is_repeated() && !field.is_map()) absl::StrAppend(&line, "repeated ");
  const OneofDescriptor* oneof = field.real_containing_oneof();
  if (oneof == nullptr && field.has_presence() && field.message_type() == nullptr)
    absl::StrAppend(&line, "optional ");
  absl::StrAppend(&line, TypeName(field));
  if (oneof != nullptr) absl::StrAppend(&line, " in oneof ", oneof->name());
  return line;
}

void DescribeEnum(const EnumDescriptor& type, std::vector<std::string>* lines) {
  lines->push_back(absl::StrCat("enum ", type.full_name(), " : file ", type.file()->name()));
  for (int i = 0; i < type.value_count(); ++i) {
    // The names of values are siblings of their enum's: spelt with it, they are clearer.
    lines->push_back(
        absl::StrCat("value ", type.full_name(), ".", type.value(i)->name(), " : ", type.value(i)->number()));
  }
}

void DescribeMessage(const Descriptor& message, std::vector<std::string>* lines) {
  lines->push_back(absl::StrCat("message ", message.full_name(), " : file ", message.file()->name()));
  for (int i = 0; i < message.field_count(); ++i) lines->push_back(FieldLine(*message.field(i)));
  for (int i = 0; i < message.enum_type_count(); ++i) DescribeEnum(*message.enum_type(i), lines);
  for (int i = 0; i < message.nested_type_count(); ++i) {
    if (!message.nested_type(i)->options().map_entry()) DescribeMessage(*message.nested_type(i), lines);
  }
}

void DescribeService(const ServiceDescriptor& service, std::vector<std::string>* lines) {
  lines->push_back(absl::StrCat("service ", service.full_name(), " : file ", service.file()->name()));
  for (int i = 0; i < service.method_count(); ++i) {
    const MethodDescriptor& method = *service.method(i);
    lines->push_back(
        absl::StrCat("method ", method.full_name(), " : ", method.client_streaming() ? "stream " : "",
                     method.input_type()->full_name(), " -> ", method.server_streaming() ? "stream " : "",
                     method.output_type()->full_name()));
  }
}

// "kind name" of a line.
std::string ElementOf(const std::string& line) {
  const std::vector<std::string> halves = absl::StrSplit(line, absl::MaxSplits(" : ", 1));
  return halves.front();
}

// "kind name" and the rest of each line.
std::map<std::string, std::string> ByElement(const std::vector<std::string>& lines) {
  std::map<std::string, std::string> elements;
  for (const std::string& line : lines) {
    const std::vector<std::string> halves = absl::StrSplit(line, absl::MaxSplits(" : ", 1));
    elements[halves.front()] = halves.back();
  }
  return elements;
}

}  // namespace

std::vector<std::string> DescribeFile(const FileDescriptor& file) {
  std::vector<std::string> lines;
  for (int i = 0; i < file.service_count(); ++i) DescribeService(*file.service(i), &lines);
  for (int i = 0; i < file.message_type_count(); ++i) DescribeMessage(*file.message_type(i), &lines);
  for (int i = 0; i < file.enum_type_count(); ++i) DescribeEnum(*file.enum_type(i), &lines);
  return lines;
}

ContractDifference Compare(const std::vector<std::string>& recorded,
                           const std::vector<std::string>& current) {
  const std::map<std::string, std::string> before = ByElement(recorded), now = ByElement(current);
  ContractDifference difference;
  for (const std::string& line : recorded) {
    const std::string element = ElementOf(line);
    const auto found = now.find(element);
    if (found == now.end()) {
      difference.breaks.push_back(
          absl::StrCat(element, " (", before.at(element),
                       ") is gone: put it back as it was; one that is out of use stays, with a "
                       "comment that says so"));
    } else if (found->second != before.at(element)) {
      difference.breaks.push_back(absl::StrCat(element, " was \"", before.at(element), "\" and is now \"",
                                               found->second,
                                               "\": change it back, and add a new element for what is new"));
    }
  }
  for (const std::string& line : current) {
    const std::string element = ElementOf(line);
    if (!before.contains(element)) difference.additions.push_back(line);
  }
  return difference;
}

}  // namespace adaptdl::proto
