#include "services/supervisor/admin/admin_service.h"

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/supervisor/admin/backup_stream.h"
#include "services/supervisor/calls/unary.h"

namespace adaptdl::supervisor {

grpc::ServerWriteReactor<v1::BackupResponse>* AdminServiceImpl::Backup(
    grpc::CallbackServerContext* /*context*/, const v1::BackupRequest* /*request*/) {
  auto stream = std::make_shared<BackupStream>(store_, executor_, durability_);
  stream->Begin(stream);
  streams_->Add(stream);
  return stream.get();
}

grpc::ServerUnaryReactor* AdminServiceImpl::WhoAmI(grpc::CallbackServerContext* context,
                                                   const v1::WhoAmIRequest* /*request*/,
                                                   v1::WhoAmIResponse* response) {
  const absl::StatusOr<security::Caller> caller = guard_->CallerOf(*context);
  if (!caller.ok()) return Answer(context, caller.status());
  response->set_name(caller->name);
  response->set_role(std::string(security::RoleName(caller->role)));
  for (const std::string& name_space : caller->namespaces) response->add_namespaces(name_space);
  if (security::CheckNamespace(*caller, "*").ok()) response->add_namespaces(std::string("*"));
  return Answer(context, absl::OkStatus());
}

}  // namespace adaptdl::supervisor
