#include "libs/service/grpc_log.h"

#include "absl/strings/str_cat.h"
#include "grpc/support/log.h"
#include "libs/service/log.h"

namespace adaptdl::service {
namespace {

void Write(gpr_log_func_args* record) {
  const std::string source = absl::StrCat(record->file, ":", record->line);
  switch (record->severity) {
    case GPR_LOG_SEVERITY_ERROR:
      // An error inside gRPC; whether it is one for us, the caller knows and says.
      return log::Warning(record->message, {{"grpc", source}});
    case GPR_LOG_SEVERITY_INFO:
      return log::Info(record->message, {{"grpc", source}});
    case GPR_LOG_SEVERITY_DEBUG:
      return log::Debug(record->message, {{"grpc", source}});
  }
}

}  // namespace

void RouteGrpcLog() { gpr_set_log_function(&Write); }

}  // namespace adaptdl::service
