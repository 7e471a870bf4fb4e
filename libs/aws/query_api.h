// Calls of the Query protocol (EC2, Auto Scaling, STS): a form that is posted, an answer in XML.
//
//   QueryApi ec2({.service = "ec2", .version = "2016-11-15", .region = "eu-west-1"}, {&http, &credentials, ...});
//   auto answer = ec2.Call({.action = "DescribeInstances", .parameters = {{"MaxResults", "1000"}}});
//
// What a call is tried again for, until `patience` has passed, with pauses that double and differ at random: throttling and
// failures to connect always; any other UNAVAILABLE, INTERNAL or DEADLINE_EXCEEDED where the call may be repeated. Where
// credentials are refused, new ones are asked for once.
//
// Errors: those of errors.h, of HttpClient and of CredentialSource. Of a call that may not be repeated, UNAVAILABLE and
// DEADLINE_EXCEEDED leave open whether it was carried out.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_AWS_QUERY_API_H_
#define ADAPTDL_LIBS_AWS_QUERY_API_H_

#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/aws/credentials.h"
#include "libs/aws/xml.h"
#include "libs/base/clock.h"
#include "libs/http/http_client.h"
#include "libs/http/pauses.h"

namespace adaptdl::aws {

using Parameters = std::vector<std::pair<std::string, std::string>>;

// What API objects need of the world. Nothing is owned, all outlives them.
struct World {
  HttpClient* http;
  CredentialSource* credentials;
  const Clock* clock;
  const Pauses* pauses;
  // Between 0 and 1, at random; thread-safe.
  std::function<double()> random;
};

struct QueryApiOptions {
  std::string service;
  std::string version;
  std::string region;
  // URL instead of Amazon's own, for emulators. Empty: Amazon's.
  std::string endpoint = {};
  // Of one try.
  absl::Duration timeout = absl::Seconds(20);
  // Of all, with the pauses; a try that has begun is not cut short by it.
  absl::Duration patience = absl::Seconds(30);
  absl::Duration first_pause = absl::Milliseconds(500);
  absl::Duration longest_pause = absl::Seconds(10);
};

struct QueryCall {
  std::string action;
  Parameters parameters = {};
  // Whether it does no harm to have it carried out twice: it only reads, or has a token by which the service knows it.
  bool may_repeat = false;
  // Whether it proves who calls.
  bool is_signed = true;
};

class QueryApi {
 public:
  QueryApi(QueryApiOptions options, World world);

  // The answer's outermost element.
  absl::StatusOr<XmlElement> Call(const QueryCall& call, const std::stop_token& stop = {});

 private:
  absl::StatusOr<XmlElement> Try(const QueryCall& call, const Credentials& credentials,
                                 const std::stop_token& stop);
  absl::Duration Jittered(absl::Duration pause) const;

  const QueryApiOptions options_;
  const World world_;
  const std::string url_;
};

// Of a call of Amazon that answers in pages: all its pages' elements. `next` is the name of the answer's element, and of the
// parameter that asks for the next page.
struct Pages {
  QueryCall call;
  std::string next = "NextToken";
  std::string answered_next = "nextToken";
};
// OUT_OF_RANGE: there are more than 200 pages, which no service has meant.
absl::Status ForEachPage(QueryApi& api, const Pages& pages,
                         const std::function<void(const XmlElement&)>& each,
                         const std::stop_token& stop = {});

}  // namespace adaptdl::aws

#endif  // ADAPTDL_LIBS_AWS_QUERY_API_H_
