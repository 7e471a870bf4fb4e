// What clients, workers and replicas send the supervisor: any bytes are parsed as one of the messages, and
// what parses is validated. The first byte says which message.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "adaptdl/v1/job_service.pb.h"
#include "adaptdl/v1/node_service.pb.h"
#include "adaptdl/v1/quota_service.pb.h"
#include "adaptdl/v1/replica_service.pb.h"
#include "libs/jobspec/job_spec.h"
#include "services/supervisor/calls/validation.h"

namespace {

template <typename Message, typename Validate>
void Try(absl::string_view bytes, Validate&& validate) {
  Message message;
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) validate(message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace v1 = adaptdl::v1;
  namespace jobspec = adaptdl::jobspec;
  namespace supervisor = adaptdl::supervisor;
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 7) {
    case 0:
      Try<v1::SubmitJobRequest>(bytes, [](const v1::SubmitJobRequest& request) {
        supervisor::ValidateRequestId(request.request_id()).IgnoreError();
        jobspec::CheckNewJob(request.job(), request.generate_name()).IgnoreError();
      });
      break;
    case 1:
      Try<v1::Hints>(bytes, [](const auto& hints) { supervisor::ValidateHints(hints).IgnoreError(); });
      break;
    case 2:
      Try<v1::TrainingProgress>(
          bytes, [](const auto& progress) { supervisor::ValidateProgress(progress).IgnoreError(); });
      break;
    case 3:
      Try<v1::RescaleTimes>(bytes,
                            [](const auto& times) { supervisor::ValidateRescaleTimes(times).IgnoreError(); });
      break;
    case 4:
      Try<v1::Node>(bytes, [](const auto& node) { supervisor::ValidateNode(node).IgnoreError(); });
      break;
    case 5:
      Try<v1::SetQuotaRequest>(bytes,
                               [](const auto& quota) { supervisor::ValidateQuota(quota).IgnoreError(); });
      break;
    case 6:
      Try<v1::JoinGroupRequest>(bytes, [](const v1::JoinGroupRequest& request) {
        supervisor::ValidateAddress("address", request.address()).IgnoreError();
      });
      break;
  }
  return 0;
}
