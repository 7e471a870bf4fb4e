// The published simulators' data, when they are at hand (beside the source tree).

#ifndef ADAPTDL_TESTS_SIMULATOR_PEERS_H_
#define ADAPTDL_TESTS_SIMULATOR_PEERS_H_

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

#include "nlohmann/json.hpp"

namespace adaptdl::simulator {

inline std::string PeersFolder() { return std::string(ADAPTDL_SOURCE_DIR) + "/../shared/peers"; }
inline std::string PolluxFolder() { return PeersFolder() + "/pollux"; }
inline std::string SiaFolder() { return PeersFolder() + "/sia"; }

inline bool HavePeers() {
  std::error_code error;
  return std::filesystem::is_directory(PolluxFolder(), error);
}

inline nlohmann::json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

// For the start of a test that needs the data.
#define SKIP_WITHOUT_PEERS() \
  if (!HavePeers()) GTEST_SKIP() << "no data of the published simulators in " << PeersFolder()

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_TESTS_SIMULATOR_PEERS_H_
