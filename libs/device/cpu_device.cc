#include "libs/device/cpu_device.h"

#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace adaptdl::device {
namespace {

// A page: what vector instructions and the kernel's copies like best.
constexpr size_t kPage = 4096;
// Where memory is large, pages of this size save most of the time that the first touch of it takes.
constexpr size_t kHugePage = size_t{2} << 20;

class NoStream final : public OwnedStream {
 public:
  Stream get() const override { return nullptr; }
};

class Moment final : public Event {
 public:
  std::chrono::steady_clock::time_point time;
};

class CpuDevice final : public Device {
 public:
  std::string name() const override { return "cpu"; }
  int index() const override { return -1; }
  bool asynchronous() const override { return false; }

  absl::StatusOr<Memory> Allocate(int64_t bytes) override {
    const auto size = static_cast<size_t>(bytes);
    const std::align_val_t alignment{size < kHugePage ? kPage : kHugePage};
    void* data = ::operator new(size, alignment, std::nothrow);
    if (data == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat("no main memory for ", bytes, " bytes"));
    }
    // Advice: where the kernel has none of them, small pages do.
    if (size >= kHugePage) (void)madvise(data, size / kHugePage * kHugePage, MADV_HUGEPAGE);
    return Memory(data, bytes, [data, alignment] { ::operator delete(data, alignment); });
  }
  absl::StatusOr<Memory> AllocateHost(int64_t bytes) override { return Allocate(bytes); }

  absl::StatusOr<std::unique_ptr<OwnedStream>> CreateStream() override {
    return std::make_unique<NoStream>();
  }
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent(bool /*timed*/) override {
    return std::make_unique<Moment>();
  }

  absl::Status Copy(void* to, const void* from, int64_t bytes, Stream /*stream*/) override {
    if (bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status SetZero(void* data, int64_t bytes, Stream /*stream*/) override {
    if (bytes > 0) std::memset(data, 0, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status Run(absl::Span<const TensorPass> passes, double* sums, Stream /*stream*/) override {
    RunOnCpu(passes, sums);
    return absl::OkStatus();
  }
  absl::Status Record(Event& event, Stream /*stream*/) override {
    static_cast<Moment&>(event).time = std::chrono::steady_clock::now();
    return absl::OkStatus();
  }
  absl::Status WaitFor(Event& /*event*/, Stream /*stream*/) override { return absl::OkStatus(); }
  absl::StatusOr<bool> IsDone(Event& /*event*/) override { return true; }
  absl::StatusOr<double> SecondsBetween(Event& from, Event& to) override {
    const std::chrono::duration<double> seconds =
        static_cast<Moment&>(to).time - static_cast<Moment&>(from).time;
    return seconds.count();
  }

 private:
  absl::Status DoAwait(Event& /*event*/) override { return absl::OkStatus(); }
};

}  // namespace

Device& Cpu() {
  static CpuDevice* const cpu = new CpuDevice();
  return *cpu;
}

}  // namespace adaptdl::device
