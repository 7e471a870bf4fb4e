#include "libs/service/security/audit_interceptor.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "libs/service/security/permissions.h"

namespace adaptdl::security {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

// Only methods of ours carry messages of protobuf: those of gRPC's own services are bytes.
constexpr absl::string_view kOurMethods = "/adaptdl.";

void ReadText(const Message& message, const char* name, std::string* value) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (!value->empty() || field == nullptr || field->is_repeated() ||
      field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return;
  }
  *value = message.GetReflection()->GetString(message, field);
}

// What the call is about, as far as `message` says.
void ReadFields(const Message& message, AuditRecord* record) {
  ReadText(message, "namespace", &record->name_space);
  ReadText(message, "name", &record->name);
  ReadText(message, "job", &record->name);
  ReadText(message, "node_id", &record->node);
  ReadText(message, "request_id", &record->request_id);
  for (const char* part : {"job", "node", "identity", "hello"}) {
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(part);
    if (field == nullptr || field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE)
      continue;
    ReadFields(message.GetReflection()->GetMessage(message, field), record);
  }
}

bool IsRefusal(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAUTHENTICATED || code == grpc::StatusCode::PERMISSION_DENIED;
}

// One per call. gRPC destroys it when the call is over.
class AuditInterceptor final : public grpc::experimental::Interceptor {
 public:
  AuditInterceptor(std::shared_ptr<const Guard> guard, const grpc::ServerContextBase* context, bool audited,
                   std::string method)
      : guard_(std::move(guard)), context_(context), audited_(audited) {
    record_.method = std::move(method);
    // A call that ends without a status was cancelled.
    record_.code = absl::StatusCode::kCancelled;
  }

  ~AuditInterceptor() override {
    if (audited_ || record_.refused) guard_->audit_log()->Write(record_);
  }

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA) && audited_) {
      ReadCaller();
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE) && !read_) {
      Read(methods->GetRecvMessage());
      read_ = true;  // The first message of a stream says what it is about.
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE) && audited_) {
      Read(methods->GetSendMessage());
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::StatusCode code = methods->GetSendStatus().error_code();
      record_.code = static_cast<absl::StatusCode>(code);
      record_.refused = IsRefusal(code);
      if (record_.refused && !audited_) ReadCaller();
    }
    methods->Proceed();
  }

 private:
  void ReadCaller() {
    record_.peer = context_->peer();
    const absl::StatusOr<Caller> caller = guard_->CallerOf(*context_);
    if (!caller.ok()) return;  // A replica: its token is the handler's matter.
    record_.caller = Describe(*caller);
    record_.role = std::string(RoleName(caller->role));
  }

  void Read(const void* message) {
    if (message != nullptr) ReadFields(*static_cast<const Message*>(message), &record_);
  }

  const std::shared_ptr<const Guard> guard_;
  const grpc::ServerContextBase* const context_;
  const bool audited_;
  bool read_ = false;
  AuditRecord record_;
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(std::shared_ptr<const Guard> guard) : guard_(std::move(guard)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    if (!absl::StartsWith(info->method(), kOurMethods)) return nullptr;
    const Permission* permission = FindPermission(info->method());
    const bool audited = permission != nullptr && permission->audited;
    return new AuditInterceptor(guard_, info->server_context(), audited, info->method());
  }

 private:
  const std::shared_ptr<const Guard> guard_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeAuditInterceptors(
    std::shared_ptr<const Guard> guard) {
  return std::make_unique<Factory>(std::move(guard));
}

}  // namespace adaptdl::security
