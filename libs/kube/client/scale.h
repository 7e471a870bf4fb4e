// The subresource `scale`: how many replicas an object of any type is to have.
//
// Plain functions; thread-safe. Errors as in the README of libs/kube.

#ifndef ADAPTDL_LIBS_KUBE_CLIENT_SCALE_H_
#define ADAPTDL_LIBS_KUBE_CLIENT_SCALE_H_

#include <cstdint>
#include <stop_token>

#include "absl/status/statusor.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/resource_type.h"

namespace adaptdl::kube {

struct Scale {
  int64_t wanted = 0;
  int64_t present = 0;
};

// `target` is the object, without the subresource.
absl::StatusOr<Scale> GetScale(const Client& client, const Target& target, const std::stop_token& stop = {});
absl::StatusOr<Scale> SetScale(const Client& client, const Target& target, int64_t wanted,
                               const ChangeOptions& options, const std::stop_token& stop = {});

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_CLIENT_SCALE_H_
