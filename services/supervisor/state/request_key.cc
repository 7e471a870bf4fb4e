#include "services/supervisor/state/request_key.h"

#include <openssl/sha.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace adaptdl::supervisor {
namespace {

// The same for equal messages, whatever the order of their maps.
std::string Serialized(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

std::string Sha256(absl::string_view text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return {reinterpret_cast<const char*>(digest), sizeof(digest)};
}

}  // namespace

RequestKey KeyOf(const std::string& caller, const std::string& name_space,
                 const google::protobuf::Message& request) {
  const google::protobuf::Descriptor* type = request.GetDescriptor();
  const google::protobuf::FieldDescriptor* id = type->FindFieldByName("request_id");
  RequestKey key;
  key.caller = caller;
  key.name_space = name_space;
  key.request_id = request.GetReflection()->GetString(request, id);
  // "SubmitJobRequest": the method, and what it was asked for.
  key.method = type->name().substr(0, type->name().rfind("Request"));
  key.content = Sha256(Serialized(request));
  return key;
}

}  // namespace adaptdl::supervisor
