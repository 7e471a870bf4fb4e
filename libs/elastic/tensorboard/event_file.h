// A file of TensorBoard's events: protobuf messages in TFRecord frames, both encoded by hand, since protobuf
// does not belong into a training process (control_loader.h says why).
//
//   frame:  uint64 length | uint32 masked CRC-32C of the length | bytes | uint32 masked CRC-32C of the bytes
//   Event:  1 double wall_time, 2 int64 step, 3 string file_version or 5 Summary summary
//   Summary: 1 Value { 1 string tag, 2 float simple_value }
//
// All numbers are little-endian. Formats: tensorflow/core/lib/io/record_writer.h,
// tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto.

#ifndef ADAPTDL_LIBS_ELASTIC_TENSORBOARD_EVENT_FILE_H_
#define ADAPTDL_LIBS_ELASTIC_TENSORBOARD_EVENT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::elastic {

// CRC-32C (Castagnoli), as RFC 3720 has it. Thread-safe.
uint32_t Crc32c(absl::string_view bytes);

// `bytes` in a frame. Thread-safe.
std::string FrameRecord(absl::string_view bytes);

// Events, without frames. `wall_time`: seconds since 1970. Thread-safe.
std::string EncodeVersionEvent(double wall_time);
std::string EncodeScalarEvent(double wall_time, int64_t step, absl::string_view tag, float value);

// One thread at a time.
class EventFile {
 public:
  // A new file in `folder`, which is made if it is missing. `wall_time`: now, in seconds since 1970.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(const std::string& folder, double wall_time);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  const std::string& path() const { return path_; }

  // One write() of a whole frame. After a failure the file is what it was before.
  absl::Status Append(absl::string_view event);

 private:
  EventFile(int fd, std::string path) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;
  int64_t size_ = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_TENSORBOARD_EVENT_FILE_H_
