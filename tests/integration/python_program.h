// How a program of Python is run that uses this project's package.

#ifndef ADAPTDL_TESTS_INTEGRATION_PYTHON_PROGRAM_H_
#define ADAPTDL_TESTS_INTEGRATION_PYTHON_PROGRAM_H_

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace adaptdl::integration {

// The command for `program`, by its path in the source: with Debian's Python, and the package as it was built; or with
// a Python that has the package itself, which scripts/test-python.sh names.
inline std::vector<std::string> PythonProgram(const std::string& program,
                                              const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {
      "/usr/bin/env", absl::StrCat("PYTHONPATH=", ADAPTDL_BINARY_DIR, "/python"), "/usr/bin/python3"};
  const char* const python =
      std::getenv("ADAPTDL_TEST_PYTHON");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  if (python != nullptr) command = {python};
  command.push_back(absl::StrCat(ADAPTDL_SOURCE_DIR, "/", program));
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_PYTHON_PROGRAM_H_
