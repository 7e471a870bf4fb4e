// What a scrape costs the supervisor: its processor's time over many in a row, less what it uses at that time anyway.

#ifndef ADAPTDL_BENCH_LOAD_SCRAPE_COST_H_
#define ADAPTDL_BENCH_LOAD_SCRAPE_COST_H_

#include <sys/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/load/process_use.h"
#include "libs/http/http_client.h"

namespace adaptdl::load {

inline constexpr int kScrapesInARow = 50;

// Cores that the process uses for a while.
inline double CoresOf(pid_t pid, absl::Duration window) {
  const double cpu = CpuSeconds(pid);
  absl::SleepFor(window);
  return (CpuSeconds(pid) - cpu) / absl::ToDoubleSeconds(window);
}

// Milliseconds of processor time per scrape of the page. `window`: how long the process is watched without, before and after.
inline absl::StatusOr<double> CpuOfScrape(const HttpRequest& page, pid_t pid, absl::Duration window) {
  HttpClient http;
  const double before = CoresOf(pid, window);
  const absl::Time begin = absl::Now();
  const double cpu = CpuSeconds(pid);
  for (int i = 0; i < kScrapesInARow; ++i) {
    const absl::StatusOr<HttpResponse> answer = http.Send(page);
    if (!answer.ok()) return answer.status();
    if (answer->status != 200) return absl::UnknownError(absl::StrCat(page.url, ": status ", answer->status));
  }
  const double used = CpuSeconds(pid) - cpu;
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  const double resting = (before + CoresOf(pid, window)) / 2;
  return 1000 * (used - resting * seconds) / kScrapesInARow;
}

}  // namespace adaptdl::load

#endif  // ADAPTDL_BENCH_LOAD_SCRAPE_COST_H_
