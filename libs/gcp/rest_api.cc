#include "libs/gcp/rest_api.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/base/backoff.h"
#include "libs/gcp/errors.h"

namespace adaptdl::gcp {
namespace {

using nlohmann::json;

bool MayBeTriedAgain(const absl::Status& status, bool may_repeat) {
  if (IsThrottling(status) || NotConnected(status)) return true;
  return may_repeat &&
         (absl::IsUnavailable(status) || absl::IsInternal(status) || absl::IsDeadlineExceeded(status));
}

std::string Escape(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || absl::string_view("-._~").find(c) != absl::string_view::npos) {
      escaped += c;
    } else {
      absl::StrAppendFormat(&escaped, "%%%02X", byte);
    }
  }
  return escaped;
}

std::string UrlOf(const std::string& base, const RestCall& call) {
  std::string url = base + call.path;
  char separator = '?';
  for (const auto& [name, value] : call.query) {
    absl::StrAppend(&url, std::string(1, separator), Escape(name), "=", Escape(value));
    separator = '&';
  }
  return url;
}

const json* Find(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto field = object.find(name);
  return field == object.end() ? nullptr : &*field;
}

}  // namespace

absl::StatusOr<json> RestApi::Call(const RestCall& call, const std::stop_token& stop) {
  const absl::Time give_up = world_.clock->Steady() + options_.patience;
  Backoff backoff(options_.first_pause, options_.longest_pause);
  bool renewed = false;
  while (true) {
    const absl::StatusOr<std::string> token = world_.tokens->Get(stop);
    if (!token.ok()) return token.status();
    absl::StatusOr<json> answer = Try(call, *token, stop);
    if (answer.ok()) return answer;
    if (absl::IsUnauthenticated(answer.status()) && !std::exchange(renewed, true)) {
      world_.tokens->Refused(*token);
      continue;
    }
    if (!MayBeTriedAgain(answer.status(), call.may_repeat)) return answer.status();
    // Between half the pause and all of it: callers that were turned away together do not come back together.
    const absl::Duration pause = backoff.Next() * (0.5 + 0.5 * world_.random());
    if (world_.clock->Steady() + pause > give_up) return answer.status();
    if (!world_.pauses->WaitFor(pause, stop)) return absl::CancelledError("a stop was requested");
  }
}

absl::StatusOr<json> RestApi::Try(const RestCall& call, const std::string& token,
                                  const std::stop_token& stop) {
  HttpRequest request = {.method = call.method,
                         .url = UrlOf(options_.url, call),
                         .headers = {"Authorization: Bearer " + token},
                         .timeout = options_.timeout};
  if (!call.body.is_null()) {
    request.headers.push_back("Content-Type: application/json");
    request.body = call.body.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  } else if (call.method == "POST") {
    // Google wants to be told that there is none.
    request.headers.push_back("Content-Length: 0");
  }
  const absl::StatusOr<HttpResponse> response = world_.http->Send(request, stop);
  if (absl::IsCancelled(response.status())) return response.status();
  if (!response.ok()) {
    absl::Status status(response.status().code(),
                        absl::StrCat(call.method, " ", call.path, ": ", response.status().message()));
    response.status().ForEachPayload(
        [&](absl::string_view type, const absl::Cord& payload) { status.SetPayload(type, payload); });
    return status;
  }
  if (response->status / 100 != 2) return ErrorOfAnswer(*response);
  json answer = json::parse(response->body, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object())
    return absl::UnknownError(absl::StrCat(call.method, " ", call.path, ": the answer is no JSON object"));
  return answer;
}

std::string TextAt(const json& object, const char* name) {
  const json* field = Find(object, name);
  return field != nullptr && field->is_string() ? field->get<std::string>() : "";
}

std::string NumberAt(const json& object, const char* name) {
  const json* field = Find(object, name);
  if (field != nullptr && field->is_number_integer()) return absl::StrCat(field->get<int64_t>());
  return TextAt(object, name);
}

const json& ListAt(const json& object, const char* name) {
  static const json& none = *new json(json::array());
  const json* field = Find(object, name);
  return field != nullptr && field->is_array() ? *field : none;
}

const json& ObjectAt(const json& object, const char* name) {
  static const json& none = *new json(json::object());
  const json* field = Find(object, name);
  return field != nullptr && field->is_object() ? *field : none;
}

}  // namespace adaptdl::gcp
