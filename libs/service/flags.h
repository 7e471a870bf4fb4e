// Flags of the servers, beyond what CLI11 has, and their environment variables.
//
// Every flag "--a-b" can also be given as the environment variable ADAPTDL_SERVER_A_B; the command line wins,
// and an empty variable counts as absent. (The prefix keeps apart a server's settings and a replica's
// variables.)
//
//   absl::Duration interval = absl::Seconds(60);
//   service::AddDurationFlag(app, "--interval", &interval, "Time between two rounds", absl::Milliseconds(1));
//
// The variables given must outlive the parsing. Not thread-safe: for the start of a program.

#ifndef ADAPTDL_LIBS_SERVICE_FLAGS_H_
#define ADAPTDL_LIBS_SERVICE_FLAGS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace adaptdl::service {

// A time span such as "60s", "500ms" or "1h30m". Refuses infinite ones and those below `minimum`.
CLI::Option* AddDurationFlag(CLI::App& app, const std::string& name, absl::Duration* value,
                             const std::string& help, absl::Duration minimum = absl::ZeroDuration());

// A number of bytes such as "512", "64Ki", "4Mi", "1.5G": see ParseBytes. Refuses those below `minimum`.
CLI::Option* AddBytesFlag(CLI::App& app, const std::string& name, int64_t* value, const std::string& help,
                          int64_t minimum = 0);

// Gives `option` its environment variable, from its name: "--node-id" reads ADAPTDL_SERVER_NODE_ID. Returns
// `option`.
CLI::Option* ReadFromEnvironment(CLI::Option* option);

// Does that for every option of `app`, except --help and --version. RunMain() calls it.
void ReadAllFromEnvironment(CLI::App& app);

// A number, with a decimal point or without, and a unit: none or B (bytes), K, M, G, T (powers of 1000), Ki,
// Mi, Gi, Ti (powers of 1024), as Kubernetes writes them.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_FLAGS_H_
