// What AdaptDL's objects of Kubernetes and their fields are called. Labels, annotations and the port are those that
// AdaptDL's own scheduler uses, so that what people have written for it goes on to find them.

#ifndef ADAPTDL_LIBS_KUBEJOBS_NAMES_H_
#define ADAPTDL_LIBS_KUBEJOBS_NAMES_H_

namespace adaptdl::kubejobs {

inline constexpr char kGroup[] = "adaptdl.petuum.com";
inline constexpr char kVersion[] = "v1";
inline constexpr char kApiVersion[] = "adaptdl.petuum.com/v1";
inline constexpr char kJobKind[] = "AdaptDLJob";
inline constexpr char kJobPlural[] = "adaptdljobs";
inline constexpr char kQuotaKind[] = "AdaptDLQuota";
inline constexpr char kQuotaPlural[] = "adaptdlquotas";
// Of the fields that we write.
inline constexpr char kFieldManager[] = "adaptdl";

// Labels of a replica's pod.
inline constexpr char kReplicaLabel[] = "adaptdl";  // "true"
inline constexpr char kJobLabel[] = "adaptdl/job";  // the job's name
inline constexpr char kJobUidLabel[] = "adaptdl.petuum.com/job-uid";
inline constexpr char kNodeGroupLabel[] = "petuum.com/nodegroup";  // "all"
// Its value of nodes that are AdaptDL's alone, as label and as taint.
inline constexpr char kOurNodeGroup[] = "adaptdl";
// Annotations of it: what it was launched as.
inline constexpr char kGroupAnnotation[] = "adaptdl/group";
inline constexpr char kRankAnnotation[] = "adaptdl/rank";
inline constexpr char kReplicasAnnotation[] = "adaptdl/replicas";
inline constexpr char kNodeAnnotation[] = "adaptdl/node";
// Kubernetes' own: the container whose log and end are the pod's.
inline constexpr char kMainContainerAnnotation[] = "kubectl.kubernetes.io/default-container";
// Kubernetes' own, of nodes.
inline constexpr char kHostNameLabel[] = "kubernetes.io/hostname";
// Holds it until its end is stored.
inline constexpr char kReplicaFinalizer[] = "adaptdl.petuum.com/replica";
// The label, "true", of pods that only keep room.
inline constexpr char kPlaceholderLabel[] = "adaptdl/placeholder";
// The label of what makes up a TensorBoard: its name.
inline constexpr char kTensorboardLabel[] = "adaptdl/tensorboard";

// Where a replica finds the token that proves who it is, and whom that token is for.
inline constexpr char kTokenFolder[] = "/var/run/secrets/adaptdl.petuum.com";
inline constexpr char kTokenName[] = "token";
inline constexpr char kTokenFile[] = "/var/run/secrets/adaptdl.petuum.com/token";
inline constexpr char kTokenAudience[] = "adaptdl-supervisor";

}  // namespace adaptdl::kubejobs

#endif  // ADAPTDL_LIBS_KUBEJOBS_NAMES_H_
