#include "libs/service/security/permissions.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace adaptdl::security {
namespace {

constexpr uint32_t Bit(Role role) { return uint32_t{1} << static_cast<int>(role); }

constexpr uint32_t kUser = Bit(Role::kUser);
constexpr uint32_t kOperator = Bit(Role::kOperator);
constexpr uint32_t kAdmin = Bit(Role::kAdmin);
constexpr uint32_t kWorker = Bit(Role::kWorker);
constexpr uint32_t kAllocator = Bit(Role::kAllocator);
constexpr uint32_t kAutoscaler = Bit(Role::kAutoscaler);
constexpr uint32_t kSupervisor = Bit(Role::kSupervisor);
constexpr uint32_t kPeople = kUser | kOperator | kAdmin;
constexpr uint32_t kAnybody = kPeople | kWorker | kAllocator | kAutoscaler | kSupervisor;

// The cluster's resources that our methods are about.
constexpr absl::string_view kJobs = "adaptdljobs";
constexpr absl::string_view kQuotas = "adaptdlquotas";
constexpr absl::string_view kNodes = "nodes";

constexpr Permission Public(absl::string_view method) { return {method, Access::kPublic, 0, false, false}; }
constexpr Permission OfReplicas(absl::string_view method) {
  return {method, Access::kReplica, 0, false, false};
}
constexpr Permission Reads(absl::string_view method, uint32_t roles) {
  return {method, Access::kRoles, roles, false, false};
}
constexpr Permission ReadsJobs(absl::string_view method, ClusterRule rule) {
  return {method, Access::kRoles, kPeople, false, true, rule};
}
constexpr Permission Changes(absl::string_view method, uint32_t roles) {
  return {method, Access::kRoles, roles, true, false};
}
constexpr Permission ChangesJobs(absl::string_view method, absl::string_view verb) {
  return {method, Access::kRoles, kUser | kAdmin, true, true, {verb, kJobs}};
}
// Of what is not in a namespace.
constexpr Permission By(ClusterRule rule, Permission permission) {
  permission.rule = rule;
  return permission;
}
constexpr Permission ForAllAccounts(Permission permission) {
  permission.for_all_accounts = true;
  return permission;
}

constexpr Permission kPermissions[] = {
    ChangesJobs("/adaptdl.v1.JobService/SubmitJob", "create"),
    ChangesJobs("/adaptdl.v1.JobService/UpdateJob", "patch"),
    ChangesJobs("/adaptdl.v1.JobService/CancelJob", "patch"),
    ChangesJobs("/adaptdl.v1.JobService/DeleteJob", "delete"),
    ReadsJobs("/adaptdl.v1.JobService/GetJob", {"get", kJobs}),
    ReadsJobs("/adaptdl.v1.JobService/ListJobs", {"list", kJobs}),
    ReadsJobs("/adaptdl.v1.JobService/WatchJobs", {"watch", kJobs}),
    ReadsJobs("/adaptdl.v1.JobService/StreamLogs", {"get", "pods", "log"}),
    ReadsJobs("/adaptdl.v1.JobService/ListEvents", {"get", kJobs}),
    ReadsJobs("/adaptdl.v1.JobService/ReadFiles", {"get", kJobs}),

    Changes("/adaptdl.v1.NodeService/RegisterNode", kWorker),
    // The node's own reports, and heartbeats: nothing that anybody decided.
    Reads("/adaptdl.v1.NodeService/Connect", kWorker),
    By({"list", kNodes}, Reads("/adaptdl.v1.NodeService/ListNodes", kPeople | kAllocator | kAutoscaler)),
    By({"patch", kNodes}, Changes("/adaptdl.v1.NodeService/DrainNode", kOperator | kAdmin | kAutoscaler)),
    By({"delete", kNodes}, Changes("/adaptdl.v1.NodeService/RemoveNode", kOperator | kAdmin | kAutoscaler)),

    OfReplicas("/adaptdl.v1.ReplicaService/JoinGroup"),
    OfReplicas("/adaptdl.v1.ReplicaService/Heartbeat"),
    OfReplicas("/adaptdl.v1.ReplicaService/ReportHints"),

    // Renewed all the time.
    Reads("/adaptdl.v1.SchedulingService/AcquireLease", kAllocator),
    Reads("/adaptdl.v1.SchedulingService/WatchCluster", kAllocator),
    Changes("/adaptdl.v1.SchedulingService/ApplyAllocations", kAllocator),

    By({"patch", kQuotas}, Changes("/adaptdl.v1.QuotaService/SetQuota", kAdmin)),
    By({"delete", kQuotas}, Changes("/adaptdl.v1.QuotaService/RemoveQuota", kAdmin)),
    By({"list", kQuotas}, Reads("/adaptdl.v1.QuotaService/ListQuotas", kOperator | kAdmin)),

    // Changes nothing, and hands out everything.
    By({"backup", kJobs}, Changes("/adaptdl.v1.AdminService/Backup", kAdmin)),
    ForAllAccounts(Reads("/adaptdl.v1.AdminService/WhoAmI", kAnybody)),

    By({"list", kNodes},
       Reads("/adaptdl.v1.CapacityService/GetDesiredCapacity", kAutoscaler | kOperator | kAdmin)),
    By({"list", kNodes}, Reads("/adaptdl.v1.AutoscalerService/ListNodePools", kPeople)),

    By({"list", kNodes},
       Reads("/adaptdl.v1.CapacityService/ListJobDemands", kAutoscaler | kOperator | kAdmin)),

    // Said each round.
    Reads("/adaptdl.v1.NodePoolService/ReportNodePools", kAutoscaler),
    By({"list", kNodes}, Reads("/adaptdl.v1.NodePoolService/GetNodePools", kPeople)),
    ReadsJobs("/adaptdl.v1.NodePoolService/GetCosts", {"list", kJobs}),

    By({"patch", kNodes}, Changes("/adaptdl.v1.EnrolmentService/CreateJoinToken", kOperator | kAdmin)),
    // What it asks for is a proof of its own.
    {"/adaptdl.v1.EnrolmentService/Enrol", Access::kPublic, 0, true, false},

    ReadsJobs("/adaptdl.v1.CodeService/StatCode", {"get", kJobs}),
    ChangesJobs("/adaptdl.v1.CodeService/UploadCode", "create"),
    // Nodes unpack it; users may read what their namespace has.
    {"/adaptdl.v1.CodeService/DownloadCode", Access::kRoles, kPeople | kWorker, false, true, {"get", kJobs}},

    ReadsJobs("/adaptdl.v1.HistoryService/GetJobHistory", {"get", kJobs}),
    ReadsJobs("/adaptdl.v1.HistoryService/ListTimelines", {"list", kJobs}),

    // Of workers; users read logs and files through the supervisor, which knows what they may read.
    Reads("/adaptdl.v1.LogService/StreamReplicaLogs", kSupervisor),
    Reads("/adaptdl.v1.LogService/ReadJobFiles", kSupervisor),

    Public("/grpc.health.v1.Health/Check"),
    Public("/grpc.health.v1.Health/Watch"),
    Reads("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", kOperator | kAdmin),
};

}  // namespace

absl::Span<const Permission> AllPermissions() { return kPermissions; }

const Permission* FindPermission(absl::string_view method) {
  for (const Permission& permission : kPermissions) {
    if (permission.method == method) return &permission;
  }
  return nullptr;
}

bool IsAllowed(const Permission& permission, Role role) { return (permission.roles & Bit(role)) != 0; }

std::string AllowedRoles(const Permission& permission) {
  std::vector<absl::string_view> names;
  for (const Role role : {Role::kUser, Role::kOperator, Role::kAdmin, Role::kWorker, Role::kAllocator,
                          Role::kAutoscaler, Role::kSupervisor}) {
    if (IsAllowed(permission, role)) names.push_back(RoleName(role));
  }
  if (names.size() < 2) return absl::StrJoin(names, "");
  const absl::string_view last = names.back();
  names.pop_back();
  return absl::StrCat(absl::StrJoin(names, ", "), " or ", last);
}

}  // namespace adaptdl::security
