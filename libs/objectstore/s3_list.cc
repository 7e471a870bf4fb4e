#include "libs/objectstore/s3_list.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/aws/xml.h"

namespace adaptdl::objectstore {
namespace {

constexpr size_t kMaxEtagBytes = 256;

bool IsHexDigit(char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); }

// With %XX and "+" resolved, as lists are encoded.
std::string DecodeKey(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && IsHexDigit(text[i + 1]) && IsHexDigit(text[i + 2])) {
      plain += absl::HexStringToBytes(text.substr(i + 1, 2));
      i += 2;
    } else {
      plain += text[i] == '+' ? ' ' : text[i];
    }
  }
  return plain;
}

absl::StatusOr<ObjectInfo> ToObject(const aws::XmlElement& item, bool encoded, const std::string& prefix) {
  const std::string key = item.Text("Key");
  ObjectInfo object{.key = encoded ? DecodeKey(key) : key, .etag = item.Text("ETag")};
  if (!absl::StartsWith(object.key, prefix) || !absl::SimpleAtoi(item.Text("Size"), &object.size) ||
      object.size < 0)
    return absl::DataLossError("the store's list holds what was not asked for");
  if (const absl::Status status = CheckEtag(object.etag); !status.ok()) return status;
  return object;
}

}  // namespace

absl::StatusOr<ListPage> ListObjects(const S3Caller& caller, const std::string& prefix,
                                     const std::string& token, int limit, const std::stop_token& stop) {
  S3Call call{.query = {{"encoding-type", "url"}, {"list-type", "2"}, {"prefix", prefix}}};
  if (limit > 0) call.query.emplace_back("max-keys", absl::StrCat(limit));
  if (!token.empty()) call.query.emplace_back("continuation-token", token);
  const absl::StatusOr<HttpResponse> answer = caller.Call(call, stop);
  if (!answer.ok()) return answer.status();
  const absl::StatusOr<aws::XmlElement> page = aws::ParseXml(answer->body);
  if (!page.ok()) return page.status();
  ListPage result;
  for (const aws::XmlElement& item : page->Items("", "Contents")) {
    absl::StatusOr<ObjectInfo> object = ToObject(item, page->Text("EncodingType") == "url", prefix);
    if (!object.ok()) return object.status();
    result.objects.push_back(*std::move(object));
  }
  if (page->Text("IsTruncated") != "true") return result;
  result.next = page->Text("NextContinuationToken");
  if (result.next.empty() || result.objects.empty())
    return absl::DataLossError("the store's list has no end: it says that there is more, but not where");
  return result;
}

absl::StatusOr<ObjectInfo> FindObject(const S3Caller& caller, const std::string& key,
                                      const std::stop_token& stop) {
  // The key itself comes before all that begin with it.
  absl::StatusOr<ListPage> page = ListObjects(caller, key, "", 1, stop);
  if (!page.ok()) return page.status();
  if (page->objects.empty() || page->objects.front().key != key)
    return absl::NotFoundError(absl::StrCat("there is no object \"", key, "\""));
  return page->objects.front();
}

absl::Status CheckEtag(absl::string_view etag) {
  bool ok = etag.size() <= kMaxEtagBytes;
  for (const char c : etag) ok = ok && absl::ascii_isprint(static_cast<unsigned char>(c));
  return ok ? absl::OkStatus() : absl::DataLossError("the store's ETag is none");
}

}  // namespace adaptdl::objectstore
