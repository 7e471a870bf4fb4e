#include "libs/jobfile/demands.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/jobfile/fields.h"
#include "libs/jobspec/files.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::jobfile {
namespace {

void ReadGpuTypes(const Node& list, v1::Placement* placement, Problems* problems) {
  for (size_t i = 0; i < list.items.size(); ++i) {
    const std::string path = absl::StrCat("spec.gpuTypes[", i, "]");
    if (CheckType(list.items[i], Type::kText, path, problems)) placement->add_gpu_types(list.items[i].text);
  }
}

void ReadDataSets(const Node& list, v1::ReplicaTemplate* replica, Problems* problems) {
  for (size_t i = 0; i < list.items.size(); ++i) {
    const Node& item = list.items[i];
    const std::string path = absl::StrCat("spec.dataSets[", i, "]");
    if (!CheckType(item, Type::kMap, path, problems)) continue;
    CheckFields(item, path, DataSetFields(), problems);
    v1::DataSet* data = replica->add_data_sets();
    if (const Node* name = Get(&item, "name", Type::kText)) data->set_name(name->text);
    if (const Node* url = Get(&item, "url", Type::kText)) data->set_url(url->text);
  }
  const absl::Status status = jobspec::CheckDataSets(replica->data_sets());
  if (!status.ok()) problems->Add(list.line, status.message());
}

}  // namespace

absl::StatusOr<google::protobuf::Timestamp> ParseDeadline(absl::string_view field, absl::string_view text) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error) || time == absl::InfiniteFuture() ||
      time <= absl::UnixEpoch()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " must be a time with its zone, such as 2026-12-01T08:00:00Z, not ", Quoted(text)));
  }
  return messages::ToProto(time);
}

void ReadDemands(const Node& spec, v1::JobSpec* out, Problems* problems) {
  if (const Node* node = Get(&spec, "deadline", Type::kText)) {
    const auto deadline = ParseDeadline("spec.deadline", node->text);
    if (deadline.ok()) *out->mutable_deadline() = *deadline;
    if (!deadline.ok()) problems->Add(node->line, deadline.status().message());
  }
  if (const Node* start = Get(&spec, "startFrom", Type::kText))
    out->mutable_start_from()->set_job(start->text);
  v1::ReplicaTemplate* replica = out->mutable_template_();
  if (const Node* list = Get(&spec, "gpuTypes", Type::kList); list != nullptr && !list->items.empty()) {
    ReadGpuTypes(*list, replica->mutable_placement(), problems);
  }
  if (const Node* list = Get(&spec, "dataSets", Type::kList)) ReadDataSets(*list, replica, problems);
}

}  // namespace adaptdl::jobfile
