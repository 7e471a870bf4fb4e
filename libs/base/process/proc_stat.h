// What the kernel says of a process or a thread in /proc/<pid>/stat (proc(5)).
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_BASE_PROCESS_PROC_STAT_H_
#define ADAPTDL_LIBS_BASE_PROCESS_PROC_STAT_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl {

struct ProcStat {
  // 'R', 'S', 'D', ...; 'Z': a zombie.
  char state = '?';
  pid_t parent = 0;
  // Processor time in clock ticks (sysconf(_SC_CLK_TCK) a second).
  uint64_t user_ticks = 0;
  uint64_t system_ticks = 0;
  int64_t threads = 0;
  // Clock ticks between the machine's start and the process's.
  uint64_t start_time = 0;
  uint64_t virtual_memory_bytes = 0;
  int64_t resident_pages = 0;

  // Whether there is nothing left of it but its exit status.
  bool ended() const { return state == 'Z' || state == 'X' || state == 'x'; }
};

// Nothing: `text` is not what such a file holds.
std::optional<ProcStat> ParseProcStat(absl::string_view text);

// Nothing: there is no such process, or it can't be seen.
std::optional<ProcStat> ReadProcStat(pid_t pid);

// Of this process.
std::optional<ProcStat> ReadOwnProcStat();

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_PROCESS_PROC_STAT_H_
