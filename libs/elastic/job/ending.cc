#include "libs/elastic/job/ending.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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
      host_->Tell(absl::StrCat("leaves the job, which goes on without this replica: ", status.message()));
      Exit(kExitStopped);
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kAborted:
      host_->Tell(
          absl::StrCat("a peer was lost, and this replica ends; it is started again if the job goes on: ",
                       status.message()));
      Exit(kExitPeerLost);
    default:
      host_->Tell(status.ToString());
      Exit(1);
  }
}

void Ending::FailDevice(const absl::Status& status) {
  ExitIfFenced();
  const bool lost = absl::IsUnavailable(status);
  host_->Tell(
      absl::StrCat(lost ? "the device is lost, this replica stops to be restarted: " : "", status.message()));
  Exit(lost ? kExitPeerLost : 1);
}

void Ending::FailUsage(const std::string& text) {
  host_->Tell(text);
  Exit(1);
}

void Ending::Exit(int code) {
  if (finish_) finish_();
  // A replica that stops in order tells how far it came.
  if (code == kExitStopped) control_->Shutdown();
  host_->Exit(code);
}

}  // namespace adaptdl::elastic
