#include "libs/messages/text.h"

#include <string>
#include <unordered_map>
#include <vector>

#include "google/protobuf/unknown_field_set.h"
#include "libs/base/utf8.h"

namespace adaptdl::messages {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

bool IsText(const FieldDescriptor& field) { return field.type() == FieldDescriptor::TYPE_STRING; }

// Whether messages of the type can hold text at all: times and numbers, of which there are many, can't.
bool HoldsText(const Descriptor* type) {
  thread_local std::unordered_map<const Descriptor*, bool> known;
  // A type that contains itself is taken for one without, until its other fields say more.
  const auto [it, is_new] = known.emplace(type, false);
  if (!is_new) return it->second;
  bool holds = false;
  for (int i = 0; i < type->field_count() && !holds; ++i) {
    const FieldDescriptor& field = *type->field(i);
    holds =
        IsText(field) || (field.type() == FieldDescriptor::TYPE_MESSAGE && HoldsText(field.message_type()));
  }
  known[type] = holds;
  return holds;
}

bool IsGood(const std::string& text, size_t max_bytes) { return text.size() <= max_bytes && IsUtf8(text); }

bool AllGood(const FieldDescriptor* field, size_t max_bytes, const Message& message) {
  const Reflection* reflection = message.GetReflection();
  std::string scratch;
  if (!field->is_repeated()) {
    return IsGood(reflection->GetStringReference(message, field, &scratch), max_bytes);
  }
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    if (!IsGood(reflection->GetRepeatedStringReference(message, field, i, &scratch), max_bytes)) return false;
  }
  return true;
}

bool IsMessageWithText(const FieldDescriptor& field) {
  return field.type() == FieldDescriptor::TYPE_MESSAGE && HoldsText(field.message_type());
}

int BoundStrings(const FieldDescriptor* field, size_t max_bytes, Message* message) {
  const Reflection* reflection = message->GetReflection();
  std::string scratch;
  if (!field->is_repeated()) {
    const std::string& text = reflection->GetStringReference(*message, field, &scratch);
    if (IsGood(text, max_bytes)) return 0;
    reflection->SetString(message, field, ToUtf8(text, max_bytes));
    return 1;
  }
  int changed = 0;
  for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
    const std::string& text = reflection->GetRepeatedStringReference(*message, field, i, &scratch);
    if (IsGood(text, max_bytes)) continue;
    reflection->SetRepeatedString(message, field, i, ToUtf8(text, max_bytes));
    ++changed;
  }
  return changed;
}

// False: the bytes are no message of the type.
bool Mend(const Descriptor& type, std::string* bytes) {
  UnknownFieldSet fields;
  if (!fields.ParseFromString(*bytes)) return false;
  for (int i = 0; i < fields.field_count(); ++i) {
    UnknownField* value = fields.mutable_field(i);
    const FieldDescriptor* field = type.FindFieldByNumber(value->number());
    if (field == nullptr || value->type() != UnknownField::TYPE_LENGTH_DELIMITED) continue;
    std::string* content = value->mutable_length_delimited();
    if (IsText(*field)) {
      *content = ToUtf8(*content);
    } else if (field->type() == FieldDescriptor::TYPE_MESSAGE && !Mend(*field->message_type(), content)) {
      return false;
    }
  }
  return fields.SerializeToString(bytes);
}

}  // namespace

bool NeedsBound(size_t max_bytes, const Message& message) {
  const Reflection* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (IsText(*field)) {
      if (!AllGood(field, max_bytes, message)) return true;
    } else if (IsMessageWithText(*field)) {
      const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        const Message& part = field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                                   : reflection->GetMessage(message, field);
        if (NeedsBound(max_bytes, part)) return true;
      }
    }
  }
  return false;
}

int BoundText(size_t max_bytes, Message* message) {
  if (!NeedsBound(max_bytes, *message)) return 0;
  const Reflection* reflection = message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  int changed = 0;
  for (const FieldDescriptor* field : fields) {
    if (IsText(*field)) {
      changed += BoundStrings(field, max_bytes, message);
    } else if (IsMessageWithText(*field)) {
      const int count = field->is_repeated() ? reflection->FieldSize(*message, field) : 1;
      for (int i = 0; i < count; ++i) {
        Message* part = field->is_repeated() ? reflection->MutableRepeatedMessage(message, field, i)
                                             : reflection->MutableMessage(message, field);
        changed += BoundText(max_bytes, part);
      }
    }
  }
  return changed;
}

Parsed ParseMending(const std::string& bytes, Message* message) {
  if (message->ParseFromString(bytes)) return Parsed::kGood;
  std::string mended = bytes;
  if (Mend(*message->GetDescriptor(), &mended) && message->ParseFromString(mended)) return Parsed::kMended;
  message->Clear();
  return Parsed::kUnreadable;
}

}  // namespace adaptdl::messages
