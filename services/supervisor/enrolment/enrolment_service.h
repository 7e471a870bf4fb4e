// EnrolmentService at the gRPC edge: administrators, and machines that nobody knows yet. Those have so many calls per
// address, and all together; a call that does not come to its turn costs nothing. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_ENROLMENT_ENROLMENT_SERVICE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_ENROLMENT_ENROLMENT_SERVICE_H_

#include <string>

#include "adaptdl/v1/enrolment_service.grpc.pb.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/base/token_buckets.h"
#include "libs/service/security/guard.h"
#include "services/supervisor/calls/admission.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/enrolment/enrolment_manager.h"

namespace adaptdl::supervisor {

class EnrolmentServiceImpl final : public v1::EnrolmentService::CallbackService {
 public:
  // None is owned; all outlive the service.
  EnrolmentServiceImpl(EnrolmentManager* enrolments, const Lanes* lanes, const security::Guard* guard,
                       Admission* admission, const Clock* clock)
      : enrolments_(enrolments), lanes_(lanes), guard_(guard), admission_(admission), clock_(clock) {}

  grpc::ServerUnaryReactor* CreateJoinToken(grpc::CallbackServerContext* context,
                                            const v1::CreateJoinTokenRequest* request,
                                            v1::CreateJoinTokenResponse* response) override;
  grpc::ServerUnaryReactor* Enrol(grpc::CallbackServerContext* context, const v1::EnrolRequest* request,
                                  v1::EnrolResponse* response) override;

 private:
  // Calls of one address: so many at once, as machines behind one router have, and then one in each period.
  static constexpr int kBurst = 50;
  static constexpr absl::Duration kPeriod = absl::Milliseconds(500);
  // Of all together.
  static constexpr int kBurstOfAll = 500;
  static constexpr absl::Duration kPeriodOfAll = absl::Milliseconds(20);
  // Addresses that are remembered; a stranger has as many as it likes.
  static constexpr size_t kMaxAddresses = 65'536;

  // RESOURCE_EXHAUSTED, with the time to wait, unless the call may be made now.
  absl::Status Take(const std::string& host);

  EnrolmentManager* const enrolments_;
  const Lanes* const lanes_;
  const security::Guard* const guard_;
  Admission* const admission_;
  const Clock* const clock_;
  Mutex mutex_;
  TokenBuckets calls_ ABSL_GUARDED_BY(mutex_) = {kBurst, kPeriod};
  TokenBuckets all_calls_ ABSL_GUARDED_BY(mutex_) = {kBurstOfAll, kPeriodOfAll};
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_ENROLMENT_ENROLMENT_SERVICE_H_
