#include "services/supervisor/code/code_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/rpc/status.h"
#include "services/supervisor/calls/pages.h"
#include "services/supervisor/calls/unary.h"
#include "services/supervisor/code/download_stream.h"
#include "services/supervisor/code/upload_stream.h"

namespace adaptdl::supervisor {
std::function<absl::Status(const std::string&)> CodeServiceImpl::MayUse(
    const grpc::CallbackServerContext& context, absl::string_view method) const {
  if (guard_->open()) return [](const std::string&) { return absl::OkStatus(); };
  const absl::StatusOr<security::Caller> caller = guard_->CallerOf(context);
  // Nodes run jobs of all namespaces. Which calls they may make the guard has looked at before.
  if (caller.ok() && caller->role == security::Role::kWorker) {
    return [](const std::string&) { return absl::OkStatus(); };
  }
  return [guard = guard_, credentials = security::CredentialsOf(context),
          path = absl::StrCat("/", v1::CodeService::service_full_name(), "/", method)](
             const std::string& name_space) { return guard->CheckNamespace(credentials, path, name_space); };
}

grpc::ServerUnaryReactor* CodeServiceImpl::StatCode(grpc::CallbackServerContext* context,
                                                    const v1::StatCodeRequest* request,
                                                    v1::StatCodeResponse* response) {
  const std::string caller = Admission::CallerOf(*context, *guard_);
  if (absl::Status status = admission_->Call(caller); !status.ok()) return Answer(context, status);
  const auto find = [this, request,
                     check = MayUse(*context, "StatCode")]() -> absl::StatusOr<v1::StatCodeResponse> {
    const std::string name_space = NamespaceOr(request->namespace_());
    if (absl::Status allowed = check(name_space); !allowed.ok()) return allowed;
    if (store_ == nullptr) return NoCodeStore();
    const absl::StatusOr<CodeStore::Progress> progress = store_->Find({name_space, request->digest()});
    if (!progress.ok()) return progress.status();
    v1::StatCodeResponse result;
    result.set_received(progress->received);
    result.set_complete(progress->complete);
    result.set_limit(store_->max_archive_bytes());
    return result;
  };
  return AnswerOn(executor_, caller, lanes_, context, find, response);
}

grpc::ServerReadReactor<v1::UploadCodeRequest>* CodeServiceImpl::UploadCode(
    grpc::CallbackServerContext* context, v1::UploadCodeResponse* response) {
  const std::string caller = Admission::CallerOf(*context, *guard_);
  const auto stream =
      std::make_shared<UploadStream>(store_, executor_, caller, MayUse(*context, "UploadCode"), response);
  absl::StatusOr<std::shared_ptr<void>> place = admission_->Stream(caller);
  const absl::Status status = place.status();
  stream->Begin(place.ok() ? *std::move(place) : nullptr);
  if (!status.ok()) stream->End(rpc::ToGrpcStatus(status));
  streams_->Add(stream);
  return stream.get();
}

grpc::ServerWriteReactor<v1::DownloadCodeResponse>* CodeServiceImpl::DownloadCode(
    grpc::CallbackServerContext* context, const v1::DownloadCodeRequest* request) {
  const std::string caller = Admission::CallerOf(*context, *guard_);
  const std::string name_space = NamespaceOr(request->namespace_());
  const auto stream =
      std::make_shared<DownloadStream>(store_, executor_, lanes_->durability, caller,
                                       CodeKey{name_space, request->digest()}, request->offset());
  stream->Require([check = MayUse(*context, "DownloadCode"), name_space] { return check(name_space); });
  absl::StatusOr<std::shared_ptr<void>> place = admission_->Stream(caller);
  const absl::Status status = store_ == nullptr ? NoCodeStore() : place.status();
  if (place.ok()) stream->Hold(*std::move(place));
  if (!status.ok()) stream->End(rpc::ToGrpcStatus(status));
  stream->Begin(stream);
  streams_->Add(stream);
  return stream.get();
}

}  // namespace adaptdl::supervisor
