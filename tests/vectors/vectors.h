// Reads what the reference computed, from this folder.

#ifndef ADAPTDL_TESTS_VECTORS_VECTORS_H_
#define ADAPTDL_TESTS_VECTORS_VECTORS_H_

#include <fstream>
#include <stdexcept>
#include <string>

#include "nlohmann/json.hpp"

namespace adaptdl {

// Throws if the file is missing or is no JSON: the test fails.
inline nlohmann::json ReadVectors(const std::string& name) {
  const std::string path = std::string(ADAPTDL_SOURCE_DIR) + "/tests/vectors/" + name;
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + " is missing: the reference's vectors belong to the tests");
  return nlohmann::json::parse(file);
}

}  // namespace adaptdl

#endif  // ADAPTDL_TESTS_VECTORS_VECTORS_H_
