// Notes calls in the audit log: each one of a method that permissions.h marks, and each one that its handler
// refused for what the caller is. (Those that the guard refuses before a handler, it notes itself.)
//
// The fields of requests are read by protobuf's reflection, by their names: "namespace", "name", "job",
// "node_id" and "request_id", in the request or in its message "job", "node", "identity" or "hello"; a name
// that the server has chosen is taken from the response. Nothing else of a message gets into the log.

#ifndef ADAPTDL_LIBS_SERVICE_SECURITY_AUDIT_INTERCEPTOR_H_
#define ADAPTDL_LIBS_SERVICE_SECURITY_AUDIT_INTERCEPTOR_H_

#include <memory>

#include "grpcpp/support/server_interceptor.h"
#include "libs/service/security/guard.h"

namespace adaptdl::security {

// For a server's builder. `guard` has an audit log.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeAuditInterceptors(
    std::shared_ptr<const Guard> guard);

}  // namespace adaptdl::security

#endif  // ADAPTDL_LIBS_SERVICE_SECURITY_AUDIT_INTERCEPTOR_H_
