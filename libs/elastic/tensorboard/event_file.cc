#include "libs/elastic/tensorboard/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/base/file.h"

namespace adaptdl::elastic {
namespace {

static_assert(std::endian::native == std::endian::little);

// Protobuf's wire types, by what stands in the lowest bits of a field's key.
constexpr int kVarint = 0;
constexpr int kFixed64 = 1;
constexpr int kBytes = 2;
constexpr int kFixed32 = 5;

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

// Of bytes that hold CRCs themselves; TFRecord's own.
uint32_t MaskedCrc(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

template <typename T>
void AppendRaw(T value, std::string* to) {
  to->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendVarint(uint64_t value, std::string* to) {
  for (; value >= 0x80; value >>= 7) to->push_back(static_cast<char>(value | 0x80));
  to->push_back(static_cast<char>(value));
}

void AppendKey(int field, int wire_type, std::string* to) {
  AppendVarint(static_cast<uint64_t>(field << 3 | wire_type), to);
}

void AppendBytes(int field, absl::string_view bytes, std::string* to) {
  AppendKey(field, kBytes, to);
  AppendVarint(bytes.size(), to);
  absl::StrAppend(to, bytes);
}

std::string BeginEvent(double wall_time) {
  std::string event;
  AppendKey(1, kFixed64, &event);
  AppendRaw(wall_time, &event);
  return event;
}

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return name;
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
  return ~crc;
}

std::string FrameRecord(absl::string_view bytes) {
  std::string frame;
  AppendRaw(static_cast<uint64_t>(bytes.size()), &frame);
  AppendRaw(MaskedCrc(frame), &frame);
  absl::StrAppend(&frame, bytes);
  AppendRaw(MaskedCrc(bytes), &frame);
  return frame;
}

std::string EncodeVersionEvent(double wall_time) {
  std::string event = BeginEvent(wall_time);
  AppendBytes(3, "brain.Event:2", &event);
  return event;
}

std::string EncodeScalarEvent(double wall_time, int64_t step, absl::string_view tag, float value) {
  std::string scalar;
  AppendBytes(1, tag, &scalar);
  AppendKey(2, kFixed32, &scalar);
  AppendRaw(value, &scalar);
  std::string summary;
  AppendBytes(1, scalar, &summary);
  std::string event = BeginEvent(wall_time);
  AppendKey(2, kVarint, &event);
  AppendVarint(static_cast<uint64_t>(step), &event);
  AppendBytes(5, summary, &event);
  return event;
}

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const std::string& folder, double wall_time) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("make the folder ", folder));
  // TensorBoard reads the files of a folder in order of their names, and looks for this beginning.
  for (int number = 0;; ++number) {
    const std::string path = absl::StrFormat("%s/events.out.tfevents.%010d.%s.%d.%d", folder,
                                             static_cast<int64_t>(wall_time), HostName(), getpid(), number);
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return ErrnoStatus(errno, absl::StrCat("make ", path));
    std::unique_ptr<EventFile> file(new EventFile(fd, path));
    if (absl::Status status = file->Append(EncodeVersionEvent(wall_time)); !status.ok()) return status;
    return file;
  }
}

EventFile::~EventFile() { close(fd_); }

absl::Status EventFile::Append(absl::string_view event) {
  const std::string frame = FrameRecord(event);
  ssize_t written = 0;
  do {
    written = write(fd_, frame.data(), frame.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(frame.size())) {
    size_ += written;
    return absl::OkStatus();
  }
  const int error = written < 0 ? errno : ENOSPC;
  // What comes after a part of a frame could not be read.
  if (written > 0 && ftruncate(fd_, size_) != 0) {
    return absl::DataLossError(absl::StrCat(path_, " holds a part of a record"));
  }
  return ErrnoStatus(error, absl::StrCat("write ", path_));
}

}  // namespace adaptdl::elastic
