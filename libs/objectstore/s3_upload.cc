#include "libs/objectstore/s3_upload.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libs/aws/errors.h"
#include "libs/aws/xml.h"
#include "libs/objectstore/digest.h"
#include "libs/objectstore/s3_list.h"

namespace adaptdl::objectstore {
namespace {

constexpr int64_t kMaxParts = 10'000;
constexpr size_t kMaxIdBytes = 1024;

struct UploadedPart {
  std::string etag;
  std::string sha256;
};

absl::StatusOr<std::string> Read(const ObjectStore::Source& source, int64_t offset, int64_t length) {
  if (length == 0) return std::string();
  absl::StatusOr<std::string> bytes = source(offset, length);
  if (!bytes.ok() || static_cast<int64_t>(bytes->size()) == length) return bytes;
  return absl::FailedPreconditionError(
      absl::StrCat("there are ", bytes->size(), " bytes at ", offset, " instead of ", length));
}

// What the server has taken is what was sent, as far as it says.
absl::Status CheckTaken(const std::string& sha256, const HttpResponse& answer) {
  const auto told = answer.headers.find("x-amz-checksum-sha256");
  if (told == answer.headers.end() || told->second == sha256) return absl::OkStatus();
  return absl::DataLossError("the store has taken something else than was sent");
}

absl::StatusOr<UploadedPart> PutBytes(const S3Caller& caller, S3Call call, const std::stop_token& stop) {
  UploadedPart part{.etag = "", .sha256 = Sha256Base64(call.body)};
  call.method = "PUT";
  call.headers = {absl::StrCat("x-amz-checksum-sha256: ", part.sha256)};
  call.check = [&part](const HttpResponse& answer) { return CheckTaken(part.sha256, answer); };
  const absl::StatusOr<HttpResponse> answer = caller.Call(call, stop);
  if (!answer.ok()) return answer.status();
  const auto etag = answer->headers.find("etag");
  if (etag != answer->headers.end()) part.etag = etag->second;
  return part;
}

absl::StatusOr<std::string> Create(const S3Caller& caller, const std::string& key,
                                   const std::stop_token& stop) {
  const absl::StatusOr<HttpResponse> answer = caller.Call({.method = "POST",
                                                           .key = key,
                                                           .query = {{"uploads", ""}},
                                                           .headers = {"x-amz-checksum-algorithm: SHA256"}},
                                                          stop);
  if (!answer.ok()) return answer.status();
  const absl::StatusOr<aws::XmlElement> result = aws::ParseXml(answer->body);
  if (!result.ok()) return result.status();
  std::string id = result->Text("UploadId");
  if (id.empty() || id.size() > kMaxIdBytes)
    return absl::DataLossError("the store takes the object in parts, but does not name the upload");
  return id;
}

absl::Status Complete(const S3Caller& caller, const std::string& key, const std::string& id,
                      const std::vector<UploadedPart>& parts, const std::stop_token& stop) {
  std::string body = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (size_t i = 0; i < parts.size(); ++i) {
    absl::StrAppend(&body, "<Part><PartNumber>", i + 1, "</PartNumber><ETag>", XmlEscape(parts[i].etag),
                    "</ETag><ChecksumSHA256>", parts[i].sha256, "</ChecksumSHA256></Part>");
  }
  absl::StrAppend(&body, "</CompleteMultipartUpload>");
  // It may say that it has failed after it has said that it has not.
  const auto check = [](const HttpResponse& answer) -> absl::Status {
    const absl::StatusOr<aws::XmlElement> result = aws::ParseXml(answer.body);
    if (!result.ok()) return absl::UnavailableError(result.status().message());
    if (result->name() != "Error") return absl::OkStatus();
    return aws::ErrorOfCode(result->Text("Code"), result->Text("Message"));
  };
  return caller
      .Call({.method = "POST", .key = key, .query = {{"uploadId", id}}, .body = body, .check = check}, stop)
      .status();
}

absl::StatusOr<std::vector<UploadedPart>> PutParts(const S3Caller& caller, const std::string& key,
                                                   const std::string& id, int64_t size,
                                                   const ObjectStore::Source& source,
                                                   const std::stop_token& stop) {
  const int64_t part_bytes = std::max(caller.options().part_bytes, (size + kMaxParts - 1) / kMaxParts);
  std::vector<UploadedPart> parts;
  for (int64_t offset = 0; offset < size; offset += part_bytes) {
    absl::StatusOr<std::string> bytes = Read(source, offset, std::min(part_bytes, size - offset));
    if (!bytes.ok()) return bytes.status();
    S3Call call{.key = key,
                .query = {{"partNumber", absl::StrCat(parts.size() + 1)}, {"uploadId", id}},
                .body = *std::move(bytes)};
    absl::StatusOr<UploadedPart> part = PutBytes(caller, std::move(call), stop);
    if (!part.ok()) return part.status();
    parts.push_back(*std::move(part));
  }
  return parts;
}

// Whether the object is there as it was to be: the answer of a completion may have got lost, and the next one finds no
// upload.
bool IsThere(const S3Caller& caller, const std::string& key, int64_t size, const std::stop_token& stop) {
  const absl::StatusOr<ObjectInfo> found = FindObject(caller, key, stop);
  return found.ok() && found->size == size;
}

}  // namespace

std::string XmlEscape(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

absl::Status Upload(const S3Caller& caller, const std::string& key, int64_t size,
                    const ObjectStore::Source& source, const std::stop_token& stop) {
  if (size <= caller.options().part_bytes) {
    absl::StatusOr<std::string> bytes = Read(source, 0, size);
    if (!bytes.ok()) return bytes.status();
    return PutBytes(caller, {.key = key, .body = *std::move(bytes)}, stop).status();
  }
  const absl::StatusOr<std::string> id = Create(caller, key, stop);
  if (!id.ok()) return id.status();
  const absl::StatusOr<std::vector<UploadedPart>> parts = PutParts(caller, key, *id, size, source, stop);
  absl::Status status = parts.status();
  if (status.ok()) status = Complete(caller, key, *id, *parts, stop);
  if (absl::IsNotFound(status) && parts.ok() && IsThere(caller, key, size, stop)) return absl::OkStatus();
  if (status.ok()) return status;
  // Also where we are to stop: parts that stay cost money, and nobody sees them.
  caller.Call({.method = "DELETE", .key = key, .query = {{"uploadId", *id}}}, {}).IgnoreError();
  return status;
}

}  // namespace adaptdl::objectstore
