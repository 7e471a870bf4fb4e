#include "libs/jobfile/fields.h"

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libs/jobfile/checker.h"

namespace adaptdl::jobfile {
namespace {

// Why a field has no effect.
constexpr absl::string_view kServerSide = "the system sets it";
constexpr absl::string_view kNotKept = "the system does not keep it";
constexpr absl::string_view kKubernetesOnly = "replicas run as processes of a node worker, not as pods";

constexpr KnownField kRoot[] = {
    {"apiVersion", Type::kText},
    {"kind", Type::kText},
    {"metadata", Type::kMap},
    {"spec", Type::kMap},
    {"status", Type::kMap, kServerSide},
};

constexpr KnownField kMetadata[] = {
    {"name", Type::kText},
    {"generateName", Type::kText},
    {"namespace", Type::kText},
    {"labels", Type::kMap},
    {"annotations", Type::kMap, kNotKept},
    {"creationTimestamp", Type::kText, kServerSide},
    {"deletionGracePeriodSeconds", Type::kInteger, kServerSide},
    {"deletionTimestamp", Type::kText, kServerSide},
    {"finalizers", Type::kList, kNotKept},
    {"generation", Type::kInteger, kServerSide},
    {"managedFields", Type::kList, kServerSide},
    {"ownerReferences", Type::kList, kNotKept},
    {"resourceVersion", Type::kText, kServerSide},
    {"selfLink", Type::kText, kServerSide},
    {"uid", Type::kText, kServerSide},
};

constexpr KnownField kSpec[] = {
    {"minReplicas", Type::kInteger},  {"maxReplicas", Type::kInteger}, {"preemptible", Type::kBoolean},
    {"maxRestarts", Type::kInteger},  {"rescale", Type::kText},        {"template", Type::kMap},
    {"allowedReplicas", Type::kList}, {"priority", Type::kInteger},    {"python", Type::kMap},
    {"suspend", Type::kBoolean},      {"deadline", Type::kText},       {"gpuTypes", Type::kList},
    {"dataSets", Type::kList},        {"apiAccess", Type::kBoolean},   {"startFrom", Type::kText},
};

constexpr KnownField kDataSet[] = {
    {"name", Type::kText},
    {"url", Type::kText},
};

constexpr KnownField kPython[] = {
    {"interpreter", Type::kText},
    {"requirements", Type::kText},
};

constexpr KnownField kTemplate[] = {
    {"metadata", Type::kMap, kKubernetesOnly},
    {"spec", Type::kMap},
};

constexpr KnownField kPod[] = {
    {"containers", Type::kList},
    {"terminationGracePeriodSeconds", Type::kInteger},
    {"activeDeadlineSeconds", Type::kInteger, kKubernetesOnly},
    {"affinity", Type::kMap},
    {"automountServiceAccountToken", Type::kBoolean, kKubernetesOnly},
    {"dnsConfig", Type::kMap, kKubernetesOnly},
    {"dnsPolicy", Type::kText, kKubernetesOnly},
    {"enableServiceLinks", Type::kBoolean, kKubernetesOnly},
    {"ephemeralContainers", Type::kList, kKubernetesOnly},
    {"hostAliases", Type::kList, kKubernetesOnly},
    {"hostIPC", Type::kBoolean, kKubernetesOnly},
    {"hostNetwork", Type::kBoolean, kKubernetesOnly},
    {"hostPID", Type::kBoolean, kKubernetesOnly},
    {"hostUsers", Type::kBoolean, kKubernetesOnly},
    {"hostname", Type::kText, kKubernetesOnly},
    {"imagePullSecrets", Type::kList, kKubernetesOnly},
    {"initContainers", Type::kList, kKubernetesOnly},
    {"nodeName", Type::kText, "the allocator chooses the nodes"},
    {"nodeSelector", Type::kMap},
    {"os", Type::kMap, kKubernetesOnly},
    {"overhead", Type::kMap, kKubernetesOnly},
    {"preemptionPolicy", Type::kText, kKubernetesOnly},
    {"priority", Type::kInteger, kKubernetesOnly},
    {"priorityClassName", Type::kText, kKubernetesOnly},
    {"readinessGates", Type::kList, kKubernetesOnly},
    {"resourceClaims", Type::kList, kKubernetesOnly},
    {"resources", Type::kMap, kKubernetesOnly},
    {"restartPolicy", Type::kText, "the supervisor restarts replicas by spec.maxRestarts"},
    {"runtimeClassName", Type::kText, kKubernetesOnly},
    {"schedulerName", Type::kText, kKubernetesOnly},
    {"schedulingGates", Type::kList, kKubernetesOnly},
    {"securityContext", Type::kMap, kKubernetesOnly},
    {"serviceAccount", Type::kText, kKubernetesOnly},
    {"serviceAccountName", Type::kText, kKubernetesOnly},
    {"setHostnameAsFQDN", Type::kBoolean, kKubernetesOnly},
    {"shareProcessNamespace", Type::kBoolean, kKubernetesOnly},
    {"subdomain", Type::kText, kKubernetesOnly},
    {"tolerations", Type::kList},
    {"topologySpreadConstraints", Type::kList, kKubernetesOnly},
    {"volumes", Type::kList, "replicas see the node's own file system"},
};

constexpr KnownField kContainer[] = {
    {"name", Type::kText},
    {"image", Type::kText},
    {"command", Type::kList},
    {"args", Type::kList},
    {"env", Type::kList},
    // Refused by the reader: a program must not start without what it was promised.
    {"envFrom", Type::kList},
    {"workingDir", Type::kText},
    {"resources", Type::kMap},
    {"imagePullPolicy", Type::kText, kKubernetesOnly},
    {"lifecycle", Type::kMap, kKubernetesOnly},
    {"livenessProbe", Type::kMap, kKubernetesOnly},
    {"ports", Type::kList, "ports are bound to free numbers and published through the rendezvous"},
    {"readinessProbe", Type::kMap, kKubernetesOnly},
    {"resizePolicy", Type::kList, kKubernetesOnly},
    {"restartPolicy", Type::kText, kKubernetesOnly},
    {"securityContext", Type::kMap, kKubernetesOnly},
    {"startupProbe", Type::kMap, kKubernetesOnly},
    {"stdin", Type::kBoolean, kKubernetesOnly},
    {"stdinOnce", Type::kBoolean, kKubernetesOnly},
    {"terminationMessagePath", Type::kText, kKubernetesOnly},
    {"terminationMessagePolicy", Type::kText, kKubernetesOnly},
    {"tty", Type::kBoolean, kKubernetesOnly},
    {"volumeDevices", Type::kList, "replicas see the node's own file system"},
    {"volumeMounts", Type::kList, "replicas see the node's own file system"},
};

constexpr KnownField kEnv[] = {
    {"name", Type::kText},
    {"value", Type::kText},
    // Refused by the reader.
    {"valueFrom", Type::kMap},
};

constexpr KnownField kResources[] = {
    {"requests", Type::kMap},
    {"limits", Type::kMap},
    {"claims", Type::kList, kKubernetesOnly},
};

constexpr absl::string_view kPreferred = "preferences are not kept, only what is required";

constexpr KnownField kAffinity[] = {
    {"nodeAffinity", Type::kMap},
    {"podAffinity", Type::kMap, kKubernetesOnly},
    {"podAntiAffinity", Type::kMap, kKubernetesOnly},
};

constexpr KnownField kNodeAffinity[] = {
    {"requiredDuringSchedulingIgnoredDuringExecution", Type::kMap},
    {"preferredDuringSchedulingIgnoredDuringExecution", Type::kList, kPreferred},
};

constexpr KnownField kNodeSelector[] = {
    {"nodeSelectorTerms", Type::kList},
};

constexpr KnownField kNodeSelectorTerm[] = {
    {"matchExpressions", Type::kList},
    {"matchFields", Type::kList},
};

constexpr KnownField kNodeRequirement[] = {
    {"key", Type::kText},
    {"operator", Type::kText},
    {"values", Type::kList},
};

constexpr KnownField kToleration[] = {
    {"key", Type::kText},
    {"operator", Type::kText},
    {"value", Type::kText},
    {"effect", Type::kText},
    {"tolerationSeconds", Type::kInteger, "a job leaves a node with such a taint when it is decided anew"},
};

}  // namespace

absl::Span<const KnownField> RootFields() { return kRoot; }
absl::Span<const KnownField> MetadataFields() { return kMetadata; }
absl::Span<const KnownField> SpecFields() { return kSpec; }
absl::Span<const KnownField> PythonFields() { return kPython; }
absl::Span<const KnownField> DataSetFields() { return kDataSet; }
absl::Span<const KnownField> TemplateFields() { return kTemplate; }
absl::Span<const KnownField> PodFields() { return kPod; }
absl::Span<const KnownField> ContainerFields() { return kContainer; }
absl::Span<const KnownField> EnvFields() { return kEnv; }
absl::Span<const KnownField> ResourcesFields() { return kResources; }
absl::Span<const KnownField> AffinityFields() { return kAffinity; }
absl::Span<const KnownField> NodeAffinityFields() { return kNodeAffinity; }
absl::Span<const KnownField> NodeSelectorFields() { return kNodeSelector; }
absl::Span<const KnownField> NodeSelectorTermFields() { return kNodeSelectorTerm; }
absl::Span<const KnownField> NodeRequirementFields() { return kNodeRequirement; }
absl::Span<const KnownField> TolerationFields() { return kToleration; }

}  // namespace adaptdl::jobfile
