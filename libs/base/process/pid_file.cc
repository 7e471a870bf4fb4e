#include "libs/base/process/pid_file.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/base/file.h"

namespace adaptdl {

absl::StatusOr<ProcessIdentity> ReadPidFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, 1000);
  if (!text.ok()) return text.status();
  const absl::StatusOr<ProcessIdentity> process = ParseIdentity(*text);
  if (!process.ok()) return absl::DataLossError(absl::StrCat(path, ": ", process.status().message()));
  return process;
}

absl::Status WritePidFile(const std::string& path, const ProcessIdentity& process) {
  return WriteFileAtomically(path, FormatIdentity(process));
}

}  // namespace adaptdl
