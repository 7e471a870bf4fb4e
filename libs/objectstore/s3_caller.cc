#include "libs/objectstore/s3_caller.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "libs/aws/endpoint.h"
#include "libs/aws/errors.h"
#include "libs/aws/signature.h"
#include "libs/base/backoff.h"

namespace adaptdl::objectstore {
namespace {

std::string BaseUrl(const S3Options& options) {
  const std::string endpoint = aws::EndpointOf("s3", options.region, options.endpoint);
  // A certificate for all buckets fits no name with a dot in it.
  const bool in_path = options.style == S3Style::kPath ||
                       (options.style == S3Style::kAuto &&
                        (!options.endpoint.empty() || absl::StrContains(options.bucket, '.')));
  if (in_path) return absl::StrCat(endpoint, "/", options.bucket);
  const size_t host = endpoint.find("://") + 3;
  return absl::StrCat(endpoint.substr(0, host), options.bucket, ".", endpoint.substr(host));
}

bool MayHelpToRepeat(const absl::Status& status) {
  return aws::IsThrottling(status) || absl::IsUnavailable(status) || absl::IsInternal(status) ||
         absl::IsDeadlineExceeded(status) || absl::IsDataLoss(status);
}

// As `status`, with its payloads, and what it was about.
absl::Status About(const S3Call& call, const absl::Status& status) {
  absl::Status told(
      status.code(),
      absl::StrCat(call.method, " ", call.key.empty() ? "of the bucket" : call.key, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { told.SetPayload(type, payload); });
  return told;
}

}  // namespace

S3Caller::S3Caller(S3Options options, aws::World world)
    : options_(std::move(options)), world_(std::move(world)), base_url_(BaseUrl(options_)) {}

std::string S3Caller::UrlOf(const S3Call& call) const {
  std::string url = absl::StrCat(base_url_, "/", aws::UriEscape(call.key, /*keep_slashes=*/true));
  if (call.query.empty()) return url;
  const auto formatter = [](std::string* text, const std::pair<std::string, std::string>& argument) {
    absl::StrAppend(text, aws::UriEscape(argument.first), "=", aws::UriEscape(argument.second));
  };
  return absl::StrCat(url, "?", absl::StrJoin(call.query, "&", formatter));
}

absl::StatusOr<HttpResponse> S3Caller::Call(const S3Call& call, const std::stop_token& stop) const {
  const absl::Time give_up = world_.clock->Steady() + options_.patience;
  Backoff backoff(options_.first_pause, options_.longest_pause);
  bool renewed = false;
  while (true) {
    const absl::StatusOr<aws::Credentials> credentials = world_.credentials->Get(stop);
    if (!credentials.ok()) return credentials.status();
    absl::StatusOr<HttpResponse> answer = Try(call, *credentials, stop);
    if (answer.ok()) return answer;
    if (absl::IsUnauthenticated(answer.status()) && !aws::CodeOf(answer.status()).empty()) {
      world_.credentials->Refused(*credentials);
      if (std::exchange(renewed, true)) return answer.status();
      continue;
    }
    if (!MayHelpToRepeat(answer.status())) return answer.status();
    // Between half the pause and all of it: those that were turned away together do not come back together.
    const absl::Duration pause = backoff.Next() * (0.5 + 0.5 * world_.random());
    if (world_.clock->Steady() + pause > give_up) return answer.status();
    if (!world_.pauses->WaitFor(pause, stop)) return absl::CancelledError("a stop was requested");
  }
}

absl::StatusOr<HttpResponse> S3Caller::Try(const S3Call& call, const aws::Credentials& credentials,
                                           const std::stop_token& stop) const {
  HttpRequest request = {.method = call.method,
                         .url = UrlOf(call),
                         .headers = call.headers,
                         .body = call.body,
                         .timeout = options_.timeout};
  // Without a body the HTTP client sends none; with one, it has a form in mind.
  if (!call.body.empty()) {
    request.headers.push_back("Content-Type: application/octet-stream");
  } else if (call.method == "PUT" || call.method == "POST") {
    request.headers.push_back("Content-Length: 0");
  }
  absl::Status status = aws::Sign(credentials, {.region = options_.region, .service = "s3", .s3 = true},
                                  world_.clock->Now(), &request);
  if (!status.ok()) return status;
  // By parts, so that nobody offers to unpack what is stored as packed.
  std::string body;
  absl::StatusOr<HttpResponse> answer = world_.http->Stream(
      request,
      [&](absl::string_view part) {
        if (body.size() + part.size() > call.max_answer_bytes) {
          return absl::OutOfRangeError(
              absl::StrCat("the answer is larger than ", call.max_answer_bytes, " bytes"));
        }
        absl::StrAppend(&body, part);
        return absl::OkStatus();
      },
      stop);
  if (absl::IsCancelled(answer.status())) return answer.status();
  if (!answer.ok()) return About(call, answer.status());
  if (answer->status / 100 != 2) return About(call, ErrorOf(*answer));
  answer->body = std::move(body);
  if (call.check) status = call.check(*answer);
  if (!status.ok()) return About(call, status);
  return answer;
}

absl::Status S3Caller::ErrorOf(const HttpResponse& answer) const {
  const absl::Status status = aws::ErrorOfAnswer(answer, world_.clock->Now());
  const std::string code = aws::CodeOf(status);
  const auto as = [&](absl::StatusCode status_code) { return absl::Status(status_code, status.message()); };
  // Those of S3 alone; answers to HEAD have no body, and so no code.
  if (answer.status == 301 || answer.status == 307 || code == "AuthorizationHeaderMalformed") {
    const auto region = answer.headers.find("x-amz-bucket-region");
    return absl::InvalidArgumentError(absl::StrCat(
        "the bucket \"", options_.bucket, "\" is in another region than \"", options_.region, "\"",
        region == answer.headers.end() ? "" : absl::StrCat(": in \"", region->second.substr(0, 64), "\""),
        "; say in which"));
  }
  if (code == "NoSuchBucket") {
    return absl::NotFoundError(
        absl::StrCat("there is no bucket \"", options_.bucket, "\": make it, or name another"));
  }
  if (absl::StartsWith(code, "NoSuch") || (answer.status == 404 && code.empty()))
    return as(absl::StatusCode::kNotFound);
  if (answer.status == 412) return absl::FailedPreconditionError("the object was replaced meanwhile");
  if (code == "BadDigest" || code == "XAmzContentSHA256Mismatch" || code == "IncompleteBody")
    return as(absl::StatusCode::kDataLoss);
  if (code == "RequestTimeout" || answer.status == 409) return as(absl::StatusCode::kUnavailable);
  return status;
}

}  // namespace adaptdl::objectstore
