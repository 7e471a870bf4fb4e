// Runs the real "adaptdl" as a child process, for tests.

#ifndef ADAPTDL_TESTS_CLI_PROGRAM_H_
#define ADAPTDL_TESTS_CLI_PROGRAM_H_

#include <string>
#include <vector>

namespace adaptdl::cli {

struct ProgramResult {
  // Exit code, or 128 + the signal's number.
  int code = -1;
  std::string out;
  std::string err;
};

// Runs "adaptdl <arguments>" to its end in the folder `folder`, without colours, 100 columns wide, with
// `folder` as home, and with `environment` ("KEY=VALUE") besides.
ProgramResult RunProgram(const std::string& folder, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment = {});

// A new empty folder that lives as long as the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  // Writes a file in it, and returns its path.
  std::string Write(const std::string& name, const std::string& content) const;
  // Content of a file in it; "" if there is none.
  std::string Read(const std::string& name) const;

 private:
  std::string path_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_TESTS_CLI_PROGRAM_H_
