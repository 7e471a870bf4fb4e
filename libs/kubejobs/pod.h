// The pod of a replica: the job's own template with what AdaptDL adds to it.
//
//   name, host name, labels, annotations    which replica it is (names.h); the job owns it, our finalizer keeps it
//   node                                    by its label kubernetes.io/hostname; the template's selectors stay
//   every container                         the environment of replicas, a large /dev/shm, the token that proves who it
//                                           is, and the job's storage
//   first container                         default resources
//
// All else of the template stays as it is. Last come the JSON patches (RFC 6902) of whoever runs the cluster.
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_KUBEJOBS_POD_H_
#define ADAPTDL_LIBS_KUBEJOBS_POD_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node_service.pb.h"
#include "libs/kube/json/json.h"

namespace adaptdl::kubejobs {

struct PodOptions {
  // Where replicas reach the supervisor: "host:port", or several with commas between.
  std::string supervisor_address;
  // The certificates, in PEM, that its own is verified with, and the name that it must have. Empty: no TLS.
  std::string supervisor_ca_pem = {};
  std::string supervisor_tls_name = {};
  // {"requests": {...}, "limits": {...}} of first containers that say nothing of that resource. Null: none.
  kube::Json default_resources = {};
  // Lists of operations on the pod, and on each of its containers. Null: none.
  kube::Json pod_patches = {};
  kube::Json container_patches = {};
  // The claim of the volume that holds the job's checkpoints and results. Empty: the job has none; what its template
  // says itself of ADAPTDL_CHECKPOINT_PATH and ADAPTDL_SHARE_PATH holds either way.
  std::string claim = {};
  // After which the kubelet has a new token.
  absl::Duration token_lifetime = absl::Hours(1);
};

// Whether these are patches, and can be read as such: before any pod is made. INVALID_ARGUMENT names `field`.
absl::Status CheckPatches(const std::string& field, const kube::Json& patches);

// `job`: the AdaptDLJob object. `node`: the Node object that the launch is for.
// INVALID_ARGUMENT: the template holds no containers, or a patch does not fit the pod. FAILED_PRECONDITION: the node
// has no label kubernetes.io/hostname.
absl::StatusOr<kube::Json> MakePod(const kube::Json& job, const v1::LaunchReplica& launch,
                                   const kube::Json& node, const PodOptions& options);

// "<job>-<group>-<rank>", of which the job's name is cut so that 63 characters are enough.
std::string HostName(const std::string& job, int64_t group, int rank);

}  // namespace adaptdl::kubejobs

#endif  // ADAPTDL_LIBS_KUBEJOBS_POD_H_
