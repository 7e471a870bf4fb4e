// Calls of Google Cloud's REST interfaces: JSON both ways, with a token that says who calls.
//
//   RestApi compute({.url = "https://compute.googleapis.com/compute/v1"}, {&http, &tokens, ...});
//   auto answer = compute.Call({.method = "GET", .path = "/projects/p/zones/z/instances/i"});
//
// What a call is tried again for, until `patience` has passed, with pauses that double and differ at random: throttling and
// failures to connect always; any other UNAVAILABLE, INTERNAL or DEADLINE_EXCEEDED where the call may be repeated. Where the token
// is refused, a new one is asked for once.
//
// Errors: those of errors.h, of HttpClient and of TokenSource; UNKNOWN: the answer is no JSON object. Of a call that may not be
// repeated, UNAVAILABLE and DEADLINE_EXCEEDED leave open whether it was carried out.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_GCP_REST_API_H_
#define ADAPTDL_LIBS_GCP_REST_API_H_

#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/gcp/tokens.h"
#include "libs/http/http_client.h"
#include "libs/http/pauses.h"
#include "nlohmann/json.hpp"

namespace adaptdl::gcp {

// What API objects need of the world. Nothing is owned, all outlives them.
struct World {
  HttpClient* http;
  TokenSource* tokens;
  const Clock* clock;
  const Pauses* pauses;
  // Between 0 and 1, at random; thread-safe.
  std::function<double()> random;
};

struct RestApiOptions {
  // What paths are appended to.
  std::string url;
  // Of one try.
  absl::Duration timeout = absl::Seconds(20);
  // Of all, with the pauses; a try that has begun is not cut short by it.
  absl::Duration patience = absl::Seconds(30);
  absl::Duration first_pause = absl::Milliseconds(500);
  absl::Duration longest_pause = absl::Seconds(10);
};

struct RestCall {
  std::string method = "GET";
  // "/projects/p/zones/z/instances/i": of letters that need no escaping.
  std::string path;
  // Names and values, escaped here.
  std::vector<std::pair<std::string, std::string>> query = {};
  // Null: no body.
  nlohmann::json body = nullptr;
  // Whether it does no harm to have it carried out twice.
  bool may_repeat = false;
};

class RestApi {
 public:
  RestApi(RestApiOptions options, World world) : options_(std::move(options)), world_(std::move(world)) {}

  // An object.
  absl::StatusOr<nlohmann::json> Call(const RestCall& call, const std::stop_token& stop = {});

 private:
  absl::StatusOr<nlohmann::json> Try(const RestCall& call, const std::string& token,
                                     const std::stop_token& stop);

  const RestApiOptions options_;
  const World world_;
};

// The members of an answer, which comes from outside: "", where there is none of that type.
std::string TextAt(const nlohmann::json& object, const char* name);
// A number that may be written as text, as Google does with those of 64 bits.
std::string NumberAt(const nlohmann::json& object, const char* name);
// An empty list or object where there is none.
const nlohmann::json& ListAt(const nlohmann::json& object, const char* name);
const nlohmann::json& ObjectAt(const nlohmann::json& object, const char* name);

}  // namespace adaptdl::gcp

#endif  // ADAPTDL_LIBS_GCP_REST_API_H_
