#include "services/supervisor/enrolment/enrolment_service.h"

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "grpc/grpc_security_constants.h"
#include "libs/certificates/openssl.h"
#include "libs/rpc/retry_info.h"
#include "libs/service/strangers.h"
#include "services/supervisor/calls/unary.h"
#include "services/supervisor/enrolment/peer_address.h"

namespace adaptdl::supervisor {
namespace {

// One bucket for all.
constexpr char kAll[] = "";

// Whether the caller's certificate, which TLS has verified when it connected, is good still.
bool IsGood(const grpc::CallbackServerContext& context, absl::Time now) {
  const auto pem = context.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (pem.size() != 1) return false;
  const absl::StatusOr<certificates::CertificatePtr> certificate =
      certificates::CertificateFromPem(absl::string_view(pem.front().data(), pem.front().size()));
  return certificate.ok() && certificates::NotAfter(certificate->get()) > now;
}

// The node of which the caller has shown a certificate that is good. Empty: of none.
std::string CertifiedNode(const grpc::CallbackServerContext& context, const security::Guard& guard,
                          absl::Time now) {
  const absl::StatusOr<security::Caller> caller = guard.CallerOf(context);
  const bool is_node =
      caller.ok() && caller->proof == "certificate" && caller->role == security::Role::kWorker;
  return is_node && IsGood(context, now) ? caller->node_id : "";
}

}  // namespace

absl::Status EnrolmentServiceImpl::Take(const std::string& host) {
  const absl::Time now = clock_->Both().steady;
  MutexLock lock(&mutex_);
  if (calls_.size() < kMaxAddresses && calls_.Take(host, now) && all_calls_.Take(kAll, now)) {
    return absl::OkStatus();
  }
  const absl::Duration wait = std::max({calls_.Wait(host, now), all_calls_.Wait(kAll, now), kPeriod});
  return rpc::WithRetryDelay(absl::ResourceExhaustedError(
                                 absl::StrCat("too many machines ask to join from this address, or of all of "
                                              "them; try again in ",
                                              absl::FormatDuration(wait))),
                             wait);
}

grpc::ServerUnaryReactor* EnrolmentServiceImpl::CreateJoinToken(grpc::CallbackServerContext* context,
                                                                const v1::CreateJoinTokenRequest* request,
                                                                v1::CreateJoinTokenResponse* response) {
  const std::string caller = Admission::CallerOf(*context, *guard_);
  if (const absl::Status status = admission_->Change(caller, lanes_->changes->waiting()); !status.ok()) {
    return Answer(context, status);
  }
  return AnswerChange(
      lanes_, caller, context,
      [this, request, identity = Admission::IdentityOf(*context, *guard_)] {
        return enrolments_->CreateJoinToken(*request, identity);
      },
      response);
}

grpc::ServerUnaryReactor* EnrolmentServiceImpl::Enrol(grpc::CallbackServerContext* context,
                                                      const v1::EnrolRequest* request,
                                                      v1::EnrolResponse* response) {
  const std::string host = service::HostOf(context->peer());
  absl::Status status = Take(host);
  if (status.ok()) status = admission_->Change(host, lanes_->changes->waiting());
  if (!status.ok()) return Answer(context, status);
  return AnswerChange(
      lanes_, host, context,
      [this, request,
       peer = EnrolmentManager::Peer{AddressOf(context->peer()),
                                     CertifiedNode(*context, *guard_, clock_->Now())}] {
        return enrolments_->Enrol(*request, peer);
      },
      response);
}

}  // namespace adaptdl::supervisor
