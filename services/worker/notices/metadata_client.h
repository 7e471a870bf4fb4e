// Calls to a cloud's metadata service: a server at a fixed address, which only the machine itself reaches. Short
// time-outs, small answers, and never by a proxy.
//
// Errors: NOT_FOUND (404), UNAUTHENTICATED (401), UNAVAILABLE (any other status, or nobody answers), DEADLINE_EXCEEDED,
// OUT_OF_RANGE (the answer is too large), INVALID_ARGUMENT (the answer is no text), CANCELLED (a stop was requested).
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_NOTICES_METADATA_CLIENT_H_
#define ADAPTDL_SERVICES_WORKER_NOTICES_METADATA_CLIENT_H_

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/http/http_client.h"

namespace adaptdl::worker {

class MetadataClient {
 public:
  // `url`: of the service, "http://169.254.169.254". `timeout`: of each call.
  explicit MetadataClient(std::string url, absl::Duration timeout = absl::Seconds(1));

  // `path` begins with "/"; `headers`: "Name: value" each. The body is valid UTF-8.
  absl::StatusOr<std::string> Get(absl::string_view path, const std::vector<std::string>& headers,
                                  const std::stop_token& stop);
  absl::StatusOr<std::string> Put(absl::string_view path, const std::vector<std::string>& headers,
                                  const std::stop_token& stop);

 private:
  absl::StatusOr<std::string> Send(const std::string& method, absl::string_view path,
                                   const std::vector<std::string>& headers, const std::stop_token& stop);

  const std::string url_;
  const absl::Duration timeout_;
  HttpClient http_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_NOTICES_METADATA_CLIENT_H_
