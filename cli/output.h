// What commands print: protocol messages as JSON or YAML, and text.
//
// JSON is protobuf's own mapping (lowerCamelCase names, 64-bit numbers as strings, RFC 3339 times) with
// fields at their defaults written out; YAML is the same document. Thread-safe.

#ifndef ADAPTDL_CLI_OUTPUT_H_
#define ADAPTDL_CLI_OUTPUT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cli/context.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace adaptdl::cli {

using Json = nlohmann::ordered_json;

Json ToJson(const google::protobuf::Message& message);

// The document as block-style YAML, with a line feed at its end.
std::string ToYaml(const Json& json);

// Prints the document in the context's format, which is not kTable.
void PrintDocument(const Context& context, const Json& json);
// The same, as one entry of a stream: a JSON document per line, or an item of a YAML list.
void PrintStreamed(const Context& context, const Json& json);

// Writes to standard output at once; false if nobody reads it any more.
bool Print(absl::string_view text);
// Writes "<text>\n" to standard error.
void Note(absl::string_view text);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_OUTPUT_H_
