#include "libs/service/client_security.h"

#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "libs/rpc/security.h"

namespace adaptdl::service {

void AddServerNameFlag(CLI::App& app, std::string* name) {
  if (name->empty()) *name = rpc::kSupervisorName;
  app.add_option("--tls-server-name", *name, "Name that the supervisor's certificate must have")
      ->capture_default_str()
      ->type_name("NAME");
}

}  // namespace adaptdl::service
