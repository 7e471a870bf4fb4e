// Plain structs to messages, and back.

#ifndef ADAPTDL_LIBS_ELASTIC_CONTROL_GRPC_CONVERSIONS_H_
#define ADAPTDL_LIBS_ELASTIC_CONTROL_GRPC_CONVERSIONS_H_

#include <string>
#include <vector>

#include "adaptdl/v1/hints.pb.h"
#include "adaptdl/v1/job.pb.h"
#include "adaptdl/v1/replica_service.pb.h"
#include "libs/elastic/control/control_plane.h"

namespace adaptdl::elastic {

v1::Hints ToProto(const Hints& hints);
v1::TrainingProgress ToProto(const Progress& progress, const std::vector<ReportedMetric>& metrics = {});
v1::RescaleTimes ToProto(const RescaleTimes& times);
v1::Activity ToProto(const Activity& activity);
GroupMembership FromProto(const v1::GroupFormed& formed);
// Whom the group waits for, for people.
std::string DescribeMissing(const v1::GroupForming& forming);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CONTROL_GRPC_CONVERSIONS_H_
