// What looks at the supervisor as Prometheus does: its metrics and the series of its jobs, every fifteen seconds.

#ifndef ADAPTDL_BENCH_LOAD_SCRAPER_H_
#define ADAPTDL_BENCH_LOAD_SCRAPER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/http/http_client.h"

namespace adaptdl::load {

// Owns a thread, which ends with it.
class Scraper {
 public:
  explicit Scraper(std::vector<HttpRequest> pages)
      : pages_(std::move(pages)), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

  int64_t scrapes() const { return scrapes_; }
  // Of all pages, the last time.
  int64_t bytes() const { return bytes_; }

 private:
  void Run(const std::stop_token& stop) {
    HttpClient http;
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any changed;
    while (!stop.stop_requested()) {
      int64_t bytes = 0;
      for (const HttpRequest& page : pages_) {
        const absl::StatusOr<HttpResponse> answer = http.Send(page, stop);
        if (!answer.ok() || answer->status != 200) {
          std::fprintf(stderr, "load_bench: %s: %s\n", page.url.c_str(), answer.status().ToString().c_str());
          continue;
        }
        bytes += static_cast<int64_t>(answer->body.size());
      }
      bytes_ = bytes;
      ++scrapes_;
      changed.wait_for(lock, stop, std::chrono::seconds(15), [] { return false; });
    }
  }

  const std::vector<HttpRequest> pages_;
  std::atomic<int64_t> scrapes_ = 0;
  std::atomic<int64_t> bytes_ = 0;
  std::jthread thread_;
};

}  // namespace adaptdl::load

#endif  // ADAPTDL_BENCH_LOAD_SCRAPER_H_
