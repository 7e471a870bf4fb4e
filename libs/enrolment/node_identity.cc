#include "libs/enrolment/node_identity.h"

#include <openssl/x509.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "adaptdl/v1/enrolment_service.grpc.pb.h"
#include "libs/base/file.h"
#include "libs/certificates/certificate_request.h"
#include "libs/certificates/certificates.h"
#include "libs/certificates/openssl.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"

namespace adaptdl::enrolment {
namespace {

using certificates::CertificatePtr;
using certificates::KeyPtr;

constexpr int kSecretMode = 0600;
constexpr int kPublicMode = 0644;
// A certificate, and what lies between it and the cluster's authority.
constexpr size_t kMostInChain = 4;

std::string NextKeyFile(const std::string& folder) { return absl::StrCat(folder, "/next.key"); }

std::string NextCertificateFile(const std::string& folder) { return absl::StrCat(folder, "/next.pem"); }

std::string UriOf(const std::string& node_id) {
  return certificates::Identity{.service = "worker", .node_id = node_id}.Uri();
}

absl::Status Unusable(const std::string& folder, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("the identity of this node in ", folder,
                                                    " can't be used: ", why,
                                                    "; remove that folder and join again with a new token"));
}

absl::Status MakeFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  }
  return error ? ErrnoStatus(error.value(), absl::StrCat("make folder ", folder)) : absl::OkStatus();
}

// The key in the file, which is made if there is none.
absl::StatusOr<KeyPtr> EnsureKey(const std::string& path) {
  const absl::StatusOr<std::string> pem = ReadWholeFile(path, certificates::kMaxPemFileBytes);
  if (pem.ok()) {
    absl::StatusOr<KeyPtr> key = certificates::KeyFromPem(*pem);
    // Half a key of a disk that was full, or none: it has no certificate yet.
    if (key.ok()) return key;
  } else if (!absl::IsNotFound(pem.status())) {
    return pem.status();
  }
  absl::StatusOr<KeyPtr> key = certificates::MakeKey();
  if (!key.ok()) return key;
  const absl::Status written = WriteFileAtomically(path, certificates::ToPem(key->get()), kSecretMode);
  if (!written.ok()) return written;
  return key;
}

absl::Status CheckAnswer(const v1::EnrolResponse& response, const std::string& node_id, EVP_PKEY* key) {
  const auto chain = certificates::CertificatesFromPem(response.certificate(), kMostInChain);
  if (!chain.ok()) return absl::InternalError(absl::StrCat("the answer: ", chain.status().message()));
  X509* own = chain->front().get();
  const std::vector<std::string> names = certificates::Names(own);
  if (X509_check_private_key(own, key) != 1 || names.empty() || names.back() != UriOf(node_id)) {
    certificates::ClearErrors();
    return absl::InternalError("the supervisor has answered with a certificate of somebody else");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Ask(v1::EnrolRequest request, const std::string& node_id, EVP_PKEY* key,
                                const Enrol& enrol) {
  absl::StatusOr<std::string> pem = certificates::MakeRequest(key);
  if (!pem.ok()) return pem;
  request.set_node_id(node_id);
  request.set_certificate_request(*std::move(pem));
  const absl::StatusOr<v1::EnrolResponse> response = enrol(request);
  if (!response.ok()) return response.status();
  if (absl::Status status = CheckAnswer(*response, node_id, key); !status.ok()) return status;
  return response->certificate();
}

}  // namespace

std::string KeyFile(const std::string& folder) { return absl::StrCat(folder, "/key.pem"); }
std::string CertificateFile(const std::string& folder) { return absl::StrCat(folder, "/cert.pem"); }

absl::StatusOr<Validity> ReadIdentity(const std::string& folder, const std::string& node_id) {
  const auto pem = ReadWholeFile(CertificateFile(folder), certificates::kMaxPemFileBytes);
  if (!pem.ok()) return pem.status();
  const auto key_pem = ReadWholeFile(KeyFile(folder), certificates::kMaxPemFileBytes);
  if (!key_pem.ok()) return key_pem.status();
  const absl::StatusOr<CertificatePtr> certificate = certificates::CertificateFromPem(*pem);
  if (!certificate.ok()) return Unusable(folder, certificate.status().message());
  absl::StatusOr<KeyPtr> key = certificates::KeyFromPem(*key_pem);
  if (!key.ok()) return Unusable(folder, key.status().message());
  if (X509_check_private_key(certificate->get(), key->get()) != 1) {
    certificates::ClearErrors();
    return Unusable(folder, "the certificate is not of the key");
  }
  const std::vector<std::string> names = certificates::Names(certificate->get());
  if (names.empty() || names.back() != UriOf(node_id)) {
    return Unusable(folder, absl::StrCat("it is of ", names.empty() ? "nobody" : names.back(),
                                         ", and this node is \"", node_id, "\""));
  }
  return Validity{certificates::NotBefore(certificate->get()), certificates::NotAfter(certificate->get())};
}

Enrol CallOf(rpc::Endpoints* supervisors, absl::Duration timeout) {
  return [supervisors, timeout](const v1::EnrolRequest& request) -> absl::StatusOr<v1::EnrolResponse> {
    const rpc::Endpoint supervisor = supervisors->current();
    rpc::AwaitConnection(supervisor.channel.get());
    grpc::ClientContext context;
    rpc::SetTimeout(&context, timeout);
    v1::EnrolResponse response;
    const grpc::Status status =
        v1::EnrolmentService::NewStub(supervisor.channel)->Enrol(&context, request, &response);
    if (status.ok()) return response;
    const absl::Status failed = rpc::FromGrpcStatus(status);
    if (rpc::IsEndpointFailure(failed)) supervisors->GoOn(supervisor);
    return failed;
  };
}

bool IsWorthRetrying(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
}

absl::Status EnrolOnce(const std::string& folder, const std::string& node_id, const Proof& proof,
                       const Enrol& enrol) {
  if (absl::Status status = MakeFolder(folder); !status.ok()) return status;
  const absl::StatusOr<KeyPtr> key = EnsureKey(KeyFile(folder));
  if (!key.ok()) return key.status();
  v1::EnrolRequest request;
  if (!proof.join_token.empty()) {
    request.set_join_token(proof.join_token);
  } else {
    request.set_instance_id(proof.instance_id);
  }
  const absl::StatusOr<std::string> certificate = Ask(std::move(request), node_id, key->get(), enrol);
  if (!certificate.ok()) return certificate.status();
  return WriteFileAtomically(CertificateFile(folder), *certificate, kPublicMode);
}

absl::Status RenewOnce(const std::string& folder, const std::string& node_id, const Enrol& enrol) {
  const absl::StatusOr<KeyPtr> key = EnsureKey(NextKeyFile(folder));
  if (!key.ok()) return key.status();
  v1::EnrolRequest request;
  request.set_renewal(true);
  const absl::StatusOr<std::string> certificate = Ask(std::move(request), node_id, key->get(), enrol);
  if (!certificate.ok()) return certificate.status();
  const absl::Status written = WriteFileAtomically(NextCertificateFile(folder), *certificate, kPublicMode);
  return written.ok() ? FinishRenewal(folder) : written;
}

absl::Status FinishRenewal(const std::string& folder) {
  const auto pem = ReadWholeFile(NextCertificateFile(folder), certificates::kMaxPemFileBytes);
  if (absl::IsNotFound(pem.status())) return absl::OkStatus();
  if (!pem.ok()) return pem.status();
  const auto key_pem = ReadWholeFile(NextKeyFile(folder), certificates::kMaxPemFileBytes);
  // Without the key, both were in their places.
  if (key_pem.ok()) {
    absl::Status status = WriteFileAtomically(KeyFile(folder), *key_pem, kSecretMode);
    if (status.ok()) status = WriteFileAtomically(CertificateFile(folder), *pem, kPublicMode);
    if (!status.ok()) return status;
  } else if (!absl::IsNotFound(key_pem.status())) {
    return key_pem.status();
  }
  for (const std::string& path : {NextCertificateFile(folder), NextKeyFile(folder)}) {
    std::error_code error;
    std::filesystem::remove(path, error);
    if (error) return ErrnoStatus(error.value(), absl::StrCat("remove ", path));
  }
  return absl::OkStatus();
}

absl::Time RenewalTime(const Validity& validity) {
  // It is good from a little before it was made.
  const absl::Time made = std::min(validity.not_before + certificates::kClockSkew, validity.not_after);
  return validity.not_after - (validity.not_after - made) / 3;
}

}  // namespace adaptdl::enrolment
