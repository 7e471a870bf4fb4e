#include "libs/base/process/proc_stat.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/file.h"

namespace adaptdl {
namespace {

constexpr int64_t kMaxBytes = 1 << 16;

std::optional<ProcStat> ReadFrom(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxBytes);
  return text.ok() ? ParseProcStat(*text) : std::nullopt;
}

}  // namespace

std::optional<ProcStat> ParseProcStat(absl::string_view text) {
  // The second field, the program's name in brackets, may hold anything. Those after it are counted from the
  // state, the third.
  const size_t name_end = text.rfind(')');
  if (name_end == absl::string_view::npos) return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(text.substr(name_end + 1), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  if (fields.size() < 22) return std::nullopt;
  ProcStat stat;
  stat.state = fields[0][0];
  const bool numbers =
      absl::SimpleAtoi(fields[1], &stat.parent) && absl::SimpleAtoi(fields[11], &stat.user_ticks) &&
      absl::SimpleAtoi(fields[12], &stat.system_ticks) && absl::SimpleAtoi(fields[17], &stat.threads) &&
      absl::SimpleAtoi(fields[19], &stat.start_time) &&
      absl::SimpleAtoi(fields[20], &stat.virtual_memory_bytes) &&
      absl::SimpleAtoi(fields[21], &stat.resident_pages);
  return numbers ? std::optional<ProcStat>(stat) : std::nullopt;
}

std::optional<ProcStat> ReadProcStat(pid_t pid) { return ReadFrom(absl::StrCat("/proc/", pid, "/stat")); }

std::optional<ProcStat> ReadOwnProcStat() { return ReadFrom("/proc/self/stat"); }

}  // namespace adaptdl
