#include "adaptdl/tensorboard.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/base/say.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/tensorboard/event_file.h"

namespace adaptdl {
namespace {

void Warn(const absl::Status& status) {
  Say(Severity::kWarning,
      absl::StrCat("TensorBoard gets nothing more from this process: ", status.ToString()));
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(Job& job, const std::string& folder) : host_(job.core().host()) {
  const std::string& place = folder.empty() ? job.core().environment().tensorboard_logdir : folder;
  if (job.rank() != 0 || place.empty()) return;
  auto file = elastic::EventFile::Create(place, host_->WallSeconds());
  if (file.ok()) {
    file_ = *std::move(file);
  } else {
    Warn(file.status());
  }
}

TensorBoardWriter::~TensorBoardWriter() = default;

void TensorBoardWriter::AddScalar(const std::string& tag, double value, int64_t step) {
  if (!file_) return;
  const absl::Status written =
      file_->Append(elastic::EncodeScalarEvent(host_->WallSeconds(), step, tag, static_cast<float>(value)));
  if (written.ok()) return;
  Warn(written);
  file_ = nullptr;
}

}  // namespace adaptdl
