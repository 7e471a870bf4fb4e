#include "libs/elastic/job/ending.h"

#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "adaptdl/job.h"

namespace adaptdl::elastic {

void Ending::ExitIfFenced() {
  // Without a checkpoint: another group writes them now.
  if (fenced_) Exit(kExitPeerLost);
}

void Ending::Fail(const absl::Status& status) {
  ExitIfFenced();
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
      std::fprintf(stderr, "adaptdl: leaves the job, which goes on without this replica: %s\n",
                   std::string(status.message()).c_str());
      Exit(kExitStopped);
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kAborted:
      std::fprintf(stderr, "adaptdl: a peer was lost, this replica stops to be restarted: %s\n",
                   std::string(status.message()).c_str());
      Exit(kExitPeerLost);
    default:
      std::fprintf(stderr, "adaptdl: %s\n", status.ToString().c_str());
      Exit(1);
  }
}

void Ending::FailDevice(const absl::Status& status) {
  ExitIfFenced();
  const bool lost = absl::IsUnavailable(status);
  std::fprintf(stderr, "adaptdl: %s%s\n",
               lost ? "the device is lost, this replica stops to be restarted: " : "",
               std::string(status.message()).c_str());
  Exit(lost ? kExitPeerLost : 1);
}

void Ending::FailUsage(const std::string& text) {
  std::fprintf(stderr, "adaptdl: %s\n", text.c_str());
  Exit(1);
}

void Ending::Exit(int code) {
  if (finish_) finish_();
  // A replica that stops in order tells how far it came.
  if (code == kExitStopped) control_->Shutdown();
  host_->Exit(code);
}

}  // namespace adaptdl::elastic
