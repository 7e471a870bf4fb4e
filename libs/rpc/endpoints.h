// Several addresses of one service, of which one answers at a time: "a:7100,b:7100". A client stays with one
// as long as it does, and goes on to the next when it does not.
//
//   auto addresses = rpc::ParseEndpoints("--supervisor", text);
//   rpc::Endpoints endpoints(*addresses, security);
//   const rpc::Endpoint endpoint = endpoints.current();
//   ... a call over endpoint.channel fails with UNAVAILABLE ...
//   endpoints.GoOn(endpoint);
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_RPC_ENDPOINTS_H_
#define ADAPTDL_LIBS_RPC_ENDPOINTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/channel.h"
#include "libs/base/mutex.h"
#include "libs/rpc/security.h"

namespace adaptdl::rpc {

// "host:port", or several, separated by commas, without repetition. `flag` is named in the error
// (INVALID_ARGUMENT).
absl::StatusOr<std::vector<std::string>> ParseEndpoints(absl::string_view flag, absl::string_view text);

// Whether a call failed such that another endpoint may do better: UNAVAILABLE, or DEADLINE_EXCEEDED, which is
// all that is heard of a process that is stopped.
bool IsEndpointFailure(const absl::Status& status);

struct Endpoint {
  std::string address;
  std::shared_ptr<grpc::Channel> channel;
  // Which choice it was.
  int64_t number = 0;
};

class Endpoints {
 public:
  // `addresses` is not empty. `make_channel` is called once for each, when it is needed first.
  Endpoints(std::vector<std::string> addresses,
            std::function<std::shared_ptr<grpc::Channel>(const std::string& address)> make_channel);
  // The same with CreateChannel(); all share the credentials.
  Endpoints(std::vector<std::string> addresses, const ClientSecurity& security);

  // Whether there are others to go on to.
  bool several() const { return addresses_.size() > 1; }
  size_t size() const { return addresses_.size(); }

  // The one to use now.
  Endpoint current();
  // `failed` did not answer: goes on to the next one, unless some other thread has done so already.
  void GoOn(const Endpoint& failed);

 private:
  const std::vector<std::string> addresses_;
  const std::function<std::shared_ptr<grpc::Channel>(const std::string& address)> make_channel_;
  Mutex mutex_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_ ABSL_GUARDED_BY(mutex_);
  int64_t number_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace adaptdl::rpc

#endif  // ADAPTDL_LIBS_RPC_ENDPOINTS_H_
