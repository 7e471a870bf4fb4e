// The flag that says what a service expects of the supervisor's certificate. Not thread-safe: for the start
// of a program.

#ifndef ADAPTDL_LIBS_SERVICE_CLIENT_SECURITY_H_
#define ADAPTDL_LIBS_SERVICE_CLIENT_SECURITY_H_

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace adaptdl::service {

// Adds --tls-server-name: what the supervisor's certificate is called, rpc::kSupervisorName unless `name`
// says otherwise. `name` must outlive the parsing. security::ClientSide() takes it.
void AddServerNameFlag(CLI::App& app, std::string* name);

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_CLIENT_SECURITY_H_
