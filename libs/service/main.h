// The frame of every server's main(): parsing, its errors, signals and exit codes.
//
//   int main(int argc, char** argv) {
//     CLI::App app{"AdaptDL allocator: decides how many replicas each job gets"};
//     service::ServerOptions server_options;  // name, listen, metrics_listen: this program's defaults
//     service::AddServerFlags(app, &server_options);
//     app.add_option("--supervisor", options.supervisor, "...")->capture_default_str();
//     return service::RunMain(app, argc, argv, [&]() -> absl::Status {
//       ... make the parts ...
//       auto server = service::Server::Start(server_options, {&my_service});
//       if (!server.ok()) return server.status();
//       (*server)->WaitForTermination();
//       return absl::OkStatus();
//     });
//   }

#ifndef ADAPTDL_LIBS_SERVICE_MAIN_H_
#define ADAPTDL_LIBS_SERVICE_MAIN_H_

#include <functional>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace adaptdl::service {

// Gives every option of `app` its environment variable (see flags.h), parses the command line, blocks SIGTERM
// and SIGINT (so that no thread made by `run` is interrupted by them) and runs `run`. Returns the exit code
// of the program:
//   0  `run` returned OK, or --help or --version was asked for
//   1  `run` failed
//   2  a flag or an environment variable is wrong, or `run` said INVALID_ARGUMENT (flags that contradict each
//   other)
// The error's text goes to stderr. Not thread-safe; call it once, from main().
int RunMain(CLI::App& app, int argc, char** argv, const std::function<absl::Status()>& run);

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_MAIN_H_
