#include "libs/objectstore/s3_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/aws/xml.h"
#include "libs/objectstore/digest.h"
#include "libs/objectstore/s3_caller.h"
#include "libs/objectstore/s3_list.h"
#include "libs/objectstore/s3_upload.h"

namespace adaptdl::objectstore {
namespace {

constexpr size_t kMaxDeleted = 1000;

std::string HeaderOf(const HttpResponse& answer, const std::string& name) {
  const auto header = answer.headers.find(name);
  return header == answer.headers.end() ? "" : header->second;
}

// An answer that is to hold the bytes from `begin` to before `end` of the object, and nothing else.
absl::Status CheckRange(const ObjectInfo& object, int64_t begin, int64_t end, const HttpResponse& answer) {
  const std::string etag = HeaderOf(answer, "etag");
  if (!etag.empty() && !object.etag.empty() && etag != object.etag)
    return absl::DataLossError("the store answers with another content of the object than was asked for");
  const bool whole = begin == 0 && end == object.size;
  const std::string range = absl::StrCat("bytes ", begin, "-", end - 1, "/", object.size);
  if (answer.status == 206 ? HeaderOf(answer, "content-range") != range : !whole)
    return absl::DataLossError(absl::StrCat("the store answers with another range than ", range));
  if (static_cast<int64_t>(answer.body.size()) == end - begin) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the store answers with ", answer.body.size(), " bytes instead of ", end - begin));
}

absl::Status ParseError(const aws::XmlElement& error) {
  return absl::UnknownError(absl::StrCat("object \"", absl::CEscape(error.Text("Key").substr(0, 256)),
                                         "\": ", absl::CEscape(error.Text("Code").substr(0, 100)), ": ",
                                         absl::CEscape(error.Text("Message").substr(0, 500))));
}

}  // namespace

S3Store::S3Store(S3Options options, aws::World world)
    : caller_(std::make_unique<S3Caller>(std::move(options), std::move(world))) {}

S3Store::~S3Store() = default;

absl::StatusOr<ObjectInfo> S3Store::Head(const std::string& key, const std::stop_token& stop) {
  if (const absl::Status status = CheckKey(key); !status.ok()) return status;
  return FindObject(*caller_, key, stop);
}

absl::Status S3Store::Get(const ObjectInfo& object, int64_t offset, const Sink& sink,
                          const std::stop_token& stop) {
  absl::Status status = CheckKey(object.key);
  status.Update(CheckEtag(object.etag));
  while (status.ok() && offset < object.size) {
    const int64_t end = std::min(object.size, offset + caller_->options().part_bytes);
    S3Call call{.key = object.key,
                .headers = {absl::StrCat("Range: bytes=", offset, "-", end - 1)},
                .max_answer_bytes = static_cast<size_t>(end - offset),
                .check = [&object, offset, end](const HttpResponse& answer) {
                  return CheckRange(object, offset, end, answer);
                }};
    if (!object.etag.empty()) call.headers.push_back(absl::StrCat("If-Match: ", object.etag));
    const absl::StatusOr<HttpResponse> answer = caller_->Call(call, stop);
    status = answer.ok() ? sink(answer->body) : answer.status();
    offset = end;
  }
  return status;
}

absl::Status S3Store::Put(const std::string& key, int64_t size, const Source& source,
                          const std::stop_token& stop) {
  if (const absl::Status status = CheckKey(key); !status.ok()) return status;
  return Upload(*caller_, key, size, source, stop);
}

absl::Status S3Store::List(const std::string& prefix, const Visitor& visit, const std::stop_token& stop) {
  std::string token;
  int64_t listed = 0;
  // No more pages than objects: each page but the last holds one at least.
  do {
    const absl::StatusOr<ListPage> page =
        ListObjects(*caller_, prefix, token, caller_->options().page_objects, stop);
    if (!page.ok()) return page.status();
    for (const ObjectInfo& object : page->objects) {
      if (++listed > caller_->options().max_listed) {
        return absl::OutOfRangeError(absl::StrCat("there are more than ", caller_->options().max_listed,
                                                  " objects in \"", prefix, "\""));
      }
      if (const absl::Status status = visit(object); !status.ok()) return status;
    }
    token = page->next;
  } while (!token.empty());
  return absl::OkStatus();
}

absl::Status S3Store::Delete(const std::vector<std::string>& keys, const std::stop_token& stop) {
  absl::Status status;
  for (size_t begin = 0; begin < keys.size() && status.ok(); begin += kMaxDeleted) {
    const auto first = keys.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto count = static_cast<std::ptrdiff_t>(std::min(kMaxDeleted, keys.size() - begin));
    status = DeleteBatch({first, first + count}, stop);
  }
  return status;
}

absl::Status S3Store::DeleteBatch(const std::vector<std::string>& keys, const std::stop_token& stop) {
  std::string body = "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>";
  for (const std::string& key : keys)
    absl::StrAppend(&body, "<Object><Key>", XmlEscape(key), "</Key></Object>");
  absl::StrAppend(&body, "</Delete>");
  // Older servers want one, newer ones take the other.
  const S3Call call{.method = "POST",
                    .query = {{"delete", ""}},
                    .headers = {absl::StrCat("Content-MD5: ", Md5Base64(body)),
                                absl::StrCat("x-amz-checksum-sha256: ", Sha256Base64(body))},
                    .body = body};
  const absl::StatusOr<HttpResponse> answer = caller_->Call(call, stop);
  if (!answer.ok()) return answer.status();
  const absl::StatusOr<aws::XmlElement> result = aws::ParseXml(answer->body);
  if (!result.ok()) return result.status();
  const std::vector<aws::XmlElement> errors = result->Items("", "Error");
  return errors.empty() ? absl::OkStatus() : ParseError(errors.front());
}

}  // namespace adaptdl::objectstore
