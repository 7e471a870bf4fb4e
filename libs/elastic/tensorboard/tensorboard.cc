#include "adaptdl/tensorboard.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/tensorboard/event_file.h"

namespace adaptdl {
namespace {

void Warn(const absl::Status& status) {
  std::fprintf(stderr, "adaptdl: WARNING: TensorBoard gets nothing more from this process: %s\n",
               status.ToString().c_str());
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(Job& job, const std::string& folder) {
  const std::string& place = folder.empty() ? job.core().environment().tensorboard_logdir : folder;
  if (job.rank() != 0 || place.empty()) return;
  auto file = elastic::EventFile::Create(place);
  if (file.ok()) {
    file_ = *std::move(file);
  } else {
    Warn(file.status());
  }
}

TensorBoardWriter::~TensorBoardWriter() = default;

void TensorBoardWriter::AddScalar(const std::string& tag, double value, int64_t step) {
  if (!file_) return;
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  const absl::Status written =
      file_->Append(elastic::EncodeScalarEvent(now, step, tag, static_cast<float>(value)));
  if (written.ok()) return;
  Warn(written);
  file_ = nullptr;
}

}  // namespace adaptdl
