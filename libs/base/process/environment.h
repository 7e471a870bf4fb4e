// Environments of processes, "NAME=value" each.
//
// Thread-safe as long as nobody changes this process's environment.

#ifndef ADAPTDL_LIBS_BASE_PROCESS_ENVIRONMENT_H_
#define ADAPTDL_LIBS_BASE_PROCESS_ENVIRONMENT_H_

#include <map>
#include <string>
#include <vector>

namespace adaptdl {

// That of this process.
std::vector<std::string> OwnEnvironment();

// That of this process with `changes`, by name. An empty value takes the variable away.
std::vector<std::string> OwnEnvironmentWith(const std::map<std::string, std::string>& changes);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_PROCESS_ENVIRONMENT_H_
