// The GPUs of fake_nvml.cc, under a test's control. Not thread-safe.

#ifndef ADAPTDL_TESTS_SERVICES_WORKER_FAKE_GPUS_H_
#define ADAPTDL_TESTS_SERVICES_WORKER_FAKE_GPUS_H_

#include <filesystem>
#include <string>

#include "absl/strings/string_view.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {

inline constexpr char kFakeNvml[] = ADAPTDL_BINARY_DIR "/tests/libfake_nvml.so";

class FakeGpus {
 public:
  // What programs need to see them.
  std::string variable() const { return "FAKE_NVML_FILE=" + path(); }
  std::string path() const { return folder_ / "gpus"; }

  // `lines`: see fake_nvml.cc. Whoever reads sees all of them, or those before.
  void Set(absl::string_view lines) {
    WriteFile(folder_ / "next", lines);
    std::filesystem::rename(folder_ / "next", path());
  }

 private:
  TempFolder folder_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_TESTS_SERVICES_WORKER_FAKE_GPUS_H_
