#include "libs/aws/query_api.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/aws/endpoint.h"
#include "libs/aws/errors.h"
#include "libs/aws/signature.h"
#include "libs/base/backoff.h"

namespace adaptdl::aws {
namespace {

constexpr int kMaxPages = 200;

std::string FormOf(const QueryCall& call, const std::string& version) {
  std::string form = absl::StrCat("Action=", UriEscape(call.action), "&Version=", UriEscape(version));
  for (const auto& [name, value] : call.parameters)
    absl::StrAppend(&form, "&", UriEscape(name), "=", UriEscape(value));
  return form;
}

bool MayBeTriedAgain(const absl::Status& status, bool may_repeat) {
  if (IsThrottling(status) || NotConnected(status)) return true;
  return may_repeat &&
         (absl::IsUnavailable(status) || absl::IsInternal(status) || absl::IsDeadlineExceeded(status));
}

}  // namespace

QueryApi::QueryApi(QueryApiOptions options, World world)
    : options_(std::move(options)),
      world_(std::move(world)),
      url_(EndpointOf(options_.service, options_.region, options_.endpoint) + "/") {}

absl::StatusOr<XmlElement> QueryApi::Call(const QueryCall& call, const std::stop_token& stop) {
  const absl::Time give_up = world_.clock->Steady() + options_.patience;
  Backoff backoff(options_.first_pause, options_.longest_pause);
  bool renewed = false;
  while (true) {
    Credentials credentials;
    if (call.is_signed) {
      absl::StatusOr<Credentials> found = world_.credentials->Get(stop);
      if (!found.ok()) return found.status();
      credentials = *std::move(found);
    }
    absl::StatusOr<XmlElement> answer = Try(call, credentials, stop);
    if (answer.ok()) return answer;
    if (call.is_signed && absl::IsUnauthenticated(answer.status()) && !CodeOf(answer.status()).empty()) {
      world_.credentials->Refused(credentials);
      if (std::exchange(renewed, true)) return answer.status();
      continue;
    }
    if (!MayBeTriedAgain(answer.status(), call.may_repeat)) return answer.status();
    const absl::Duration pause = Jittered(backoff.Next());
    if (world_.clock->Steady() + pause > give_up) return answer.status();
    if (!world_.pauses->WaitFor(pause, stop)) return absl::CancelledError("a stop was requested");
  }
}

absl::StatusOr<XmlElement> QueryApi::Try(const QueryCall& call, const Credentials& credentials,
                                         const std::stop_token& stop) {
  HttpRequest request = {.method = "POST",
                         .url = url_,
                         .headers = {"Content-Type: application/x-www-form-urlencoded; charset=utf-8"},
                         .body = FormOf(call, options_.version),
                         .timeout = options_.timeout};
  if (call.is_signed) {
    const absl::Status status = Sign(credentials, {.region = options_.region, .service = options_.service},
                                     world_.clock->Now(), &request);
    if (!status.ok()) return status;
  }
  const absl::StatusOr<HttpResponse> response = world_.http->Send(request, stop);
  if (absl::IsCancelled(response.status())) return response.status();
  if (!response.ok()) {
    absl::Status status(response.status().code(),
                        absl::StrCat(call.action, ": ", response.status().message()));
    response.status().ForEachPayload(
        [&](absl::string_view type, const absl::Cord& payload) { status.SetPayload(type, payload); });
    return status;
  }
  if (response->status / 100 != 2) return ErrorOfAnswer(*response, world_.clock->Now());
  return ParseXml(response->body);
}

// Between half the pause and all of it: callers that were turned away together do not come back together.
absl::Duration QueryApi::Jittered(absl::Duration pause) const {
  return pause * (0.5 + 0.5 * world_.random());
}

absl::Status ForEachPage(QueryApi& api, const Pages& pages,
                         const std::function<void(const XmlElement&)>& each, const std::stop_token& stop) {
  std::string token;
  for (int page = 0; page < kMaxPages; ++page) {
    QueryCall call = pages.call;
    call.may_repeat = true;
    if (!token.empty()) call.parameters.emplace_back(pages.next, token);
    const absl::StatusOr<XmlElement> answer = api.Call(call, stop);
    if (!answer.ok()) return answer.status();
    each(*answer);
    token = answer->Text(pages.answered_next);
    if (token.empty()) return absl::OkStatus();
  }
  return absl::OutOfRangeError(absl::StrCat(pages.call.action, ": more than ", kMaxPages, " pages"));
}

}  // namespace adaptdl::aws
