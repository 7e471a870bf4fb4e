#include "libs/base/program_folder.h"

#include <filesystem>
#include <string>
#include <system_error>

namespace adaptdl {

std::string ProgramFolder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : program.parent_path().string();
}

std::string BesideProgram(absl::string_view name) {
  return (std::filesystem::path(ProgramFolder()) / std::string(name)).string();
}

}  // namespace adaptdl
