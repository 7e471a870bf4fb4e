#include "libs/base/program_folder.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace adaptdl {

std::string ProgramFolder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : program.parent_path().string();
}

std::string ModuleFolder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&ModuleFolder), &info) == 0 || info.dli_fname == nullptr)
    return "";
  std::error_code error;
  const std::filesystem::path module = std::filesystem::canonical(info.dli_fname, error);
  return error ? "" : module.parent_path().string();
}

std::string BesideProgram(absl::string_view name) {
  return (std::filesystem::path(ProgramFolder()) / std::string(name)).string();
}

}  // namespace adaptdl
