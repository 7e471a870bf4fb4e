// The strings of protobuf messages. Protobuf writes a string that is no UTF-8 without a word, and refuses to
// read it: whoever keeps or sends one makes the whole message, and all that travels with it, unreadable.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_MESSAGES_TEXT_H_
#define ADAPTDL_LIBS_MESSAGES_TEXT_H_

#include <cstddef>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace adaptdl::messages {

// Whether some string of `message`, at any depth, is no valid UTF-8 or has more than `max_bytes` bytes.
// Fields of type bytes are not looked at.
bool NeedsBound(size_t max_bytes, const google::protobuf::Message& message);

// Makes every string of `message`, at any depth, valid UTF-8 of at most `max_bytes` bytes. Returns how many
// it had to change. Fields of type bytes are left alone.
int BoundText(size_t max_bytes, google::protobuf::Message* message);

enum class Parsed {
  // Nothing was wrong.
  kGood,
  // Some strings were no UTF-8; U+FFFD stands for what was wrong in them. All else is as it was.
  kMended,
  // These bytes are no such message.
  kUnreadable,
};

// Reads a message that may hold strings that are no UTF-8. `message` is empty if it can't be read.
Parsed ParseMending(const std::string& bytes, google::protobuf::Message* message);

}  // namespace adaptdl::messages

#endif  // ADAPTDL_LIBS_MESSAGES_TEXT_H_
