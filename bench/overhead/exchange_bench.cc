// How gradients travel between two replicas on one machine: whether their exchange is hidden behind the backward pass, and
// what cutting it into buckets costs.
//
//   build/release/bench/exchange_bench
//   build/release/bench/exchange_bench --device cpu --model resnet18 --batch 16
//
// The two are processes. On a GPU they share the first one that is seen. NCCL refuses that to ranks of one host, so each is
// given a host's name of its own (NCCL_HOSTID), and they talk through sockets; nobody promises that this works: where it
// does not within a minute, they exchange by way of pinned main memory, and this program says so.
//
// Prints a trace of the step whose exchange ended latest after its backward pass, of those in the middle; then how long all
// its buckets take without a backward pass, and one all-reduce of as many bytes. The last line is JSON.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "adaptdl/adaptdl.h"
#include "bench/overhead/median.h"
#include "bench/overhead/models.h"
#include "bench/overhead/traced_communicator.h"
#include "libs/comm/nccl_communicator.h"
#include "libs/comm/staged_communicator.h"
#include "libs/comm/tcp_communicator.h"
#include "libs/comm/tcp_rendezvous.h"
#include "libs/device/cpu_device.h"
#include "libs/device/device_loader.h"
#include "libs/elastic/control/standalone_control_plane.h"
#include "libs/elastic/host/process_host.h"
#include "libs/elastic/job/job_core.h"
#include "torch/utils.h"

namespace adaptdl::bench {
namespace {

using Spans = std::vector<TracedCommunicator::Span>;

struct Flags {
  std::string device = "auto";
  std::string model = kTransformer.name;
  // 0: the case's own.
  int64_t batch = 0;
  int64_t steps = 9;
};

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// How the two are connected, and how to say that.
struct Connection {
  std::unique_ptr<comm::Communicator> communicator;
  std::string how;
};

absl::StatusOr<Connection> Connect(comm::TcpRendezvous& rendezvous, int rank,
                                   const torch::Device& torch_device) {
  comm::ConnectOptions options = {
      .rank = rank, .size = 2, .group = 1, .host = "127.0.0.1", .timeout = absl::Minutes(1)};
  if (torch_device.is_cpu()) {
    auto connected = comm::ConnectTcp(rendezvous, options);
    if (!connected.ok()) return connected.status();
    return Connection{*std::move(connected), "TCP"};
  }
  const absl::StatusOr<device::Device*> gpu = device::CudaDeviceAt(0);
  if (!gpu.ok()) return gpu.status();
  auto over_nccl = comm::ConnectNccl(rendezvous, options, **gpu);
  absl::Status works = over_nccl.status();
  if (works.ok()) {
    // It may connect and then hang.
    absl::StatusOr<device::Memory> memory = (*gpu)->Allocate(sizeof(float));
    if (!memory.ok()) return memory.status();
    works = (*over_nccl)->AllReduce({memory->data(), 1, comm::DataType::kFloat32, *gpu, nullptr});
  }
  if (works.ok()) return Connection{*std::move(over_nccl), "NCCL"};
  if (rank == 0) std::fprintf(stderr, "exchange_bench: not over NCCL: %s\n", works.ToString().c_str());
  if (over_nccl.ok()) over_nccl->reset();
  options.group = 2;
  auto over_tcp = comm::ConnectTcp(rendezvous, options);
  if (!over_tcp.ok()) return over_tcp.status();
  auto staged = comm::CreateStagedCommunicator(*std::move(over_tcp), *gpu);
  if (!staged.ok()) return staged.status();
  return Connection{*std::move(staged), "TCP by way of pinned main memory"};
}

class Member {
 public:
  Member(const Flags& flags, const torch::Device& device, Connection connection)
      : device_(device), how_(connection.how) {
    auto traced = std::make_unique<TracedCommunicator>(std::move(connection.communicator));
    communicator_ = traced.get();
    elastic::JobDependencies dependencies;
    dependencies.environment.replica_rank = traced->rank();
    dependencies.environment.num_replicas = traced->size();
    dependencies.control = std::make_unique<elastic::StandaloneControlPlane>(dependencies.environment);
    dependencies.transport = elastic::TransportOfOne();
    dependencies.transport.connect =
        [shared = std::make_shared<std::unique_ptr<comm::Communicator>>(std::move(traced))](
            const elastic::GroupMembership&) { return std::move(*shared); };
    dependencies.host = elastic::ProcessHost();
    job_ = std::make_unique<Job>(*elastic::JobCore::Create(std::move(dependencies)));
    const Case& model = flags.model == kResNet18.name ? kResNet18 : kTransformer;
    batch_ = flags.batch > 0 ? flags.batch : model.batch;
    torch::manual_seed(1);
    model_ = model.make(device, batch_);
    parallel_ = std::make_unique<AdaptiveDataParallel>(*job_, model_->module(), model_->optimizer());
  }

  // The exchange of each of `steps` steps after the first ones.
  absl::StatusOr<std::vector<Spans>> Train(int64_t steps) {
    constexpr int64_t kWarmUp = 3;
    std::vector<Spans> exchanges;
    for (int64_t step = 0; step < kWarmUp + steps; ++step) {
      parallel_->ZeroGrad();
      model_->Loss(batch_).backward();
      parallel_->Step();
      Synchronize(device_);
      absl::StatusOr<Spans> spans = communicator_->TakeSpans();
      if (!spans.ok()) return spans.status();
      if (step >= kWarmUp) exchanges.push_back(*std::move(spans));
    }
    return exchanges;
  }

  // Seconds of all-reduces of so many bytes each, all under way at once.
  absl::StatusOr<double> AllReduce(const std::vector<int64_t>& sizes) {
    device::Device* const device =
        communicator_->device() != nullptr ? communicator_->device() : &device::Cpu();
    std::vector<device::Memory> memory;
    for (const int64_t bytes : sizes) {
      absl::StatusOr<device::Memory> made = device->Allocate(bytes);
      if (!made.ok()) return made.status();
      if (absl::Status status = device->SetZero(made->data(), bytes, nullptr); !status.ok()) return status;
      memory.push_back(*std::move(made));
    }
    std::vector<double> rounds;
    for (int round = 0; round < 7; ++round) {
      if (absl::Status status = communicator_->Barrier(); !status.ok()) return status;
      const double start = Seconds();
      std::vector<std::unique_ptr<comm::Work>> works;
      for (size_t i = 0; i < sizes.size(); ++i) {
        works.push_back(
            communicator_->AllReduceAsync({memory[i].data(), sizes[i] / static_cast<int64_t>(sizeof(float)),
                                           comm::DataType::kFloat32, communicator_->device(), nullptr}));
      }
      for (const auto& work : works) {
        if (absl::Status status = work->Wait(); !status.ok()) return status;
      }
      rounds.push_back(Seconds() - start);
    }
    if (absl::StatusOr<Spans> spans = communicator_->TakeSpans(); !spans.ok()) return spans.status();
    return Median(std::move(rounds));
  }

  const std::string& how() const { return how_; }

 private:
  const torch::Device device_;
  const std::string how_;
  TracedCommunicator* communicator_ = nullptr;
  std::unique_ptr<Job> job_;
  int64_t batch_ = 0;
  std::unique_ptr<Model> model_;
  std::unique_ptr<AdaptiveDataParallel> parallel_;
};

// The last bucket can be sent when the backward pass is over.
double BackwardEnd(const Spans& spans) { return spans.back().begin; }
double ExchangeEnd(const Spans& spans) {
  double end = 0;
  for (const auto& span : spans) end = std::max(end, span.end);
  return end;
}
double Exposed(const Spans& spans) { return ExchangeEnd(spans) - BackwardEnd(spans); }

// The step in the middle.
Spans Typical(std::vector<Spans> exchanges) {
  const auto middle = exchanges.begin() + static_cast<std::ptrdiff_t>(exchanges.size() / 2);
  std::nth_element(exchanges.begin(), middle, exchanges.end(),
                   [](const Spans& a, const Spans& b) { return Exposed(a) < Exposed(b); });
  return *middle;
}

void Print(const Flags& flags, const torch::Device& device, const std::string& how, const Spans& spans,
           double flat_seconds, double bucket_seconds) {
  int64_t bytes = 0;
  int64_t hidden = 0;
  std::printf("%8s %8s %10s %10s\n", "bucket", "MB", "sent, ms", "done, ms");
  for (size_t i = 0; i < spans.size(); ++i) {
    const auto& span = spans[i];
    std::printf("%8zu %8.2f %10.2f %10.2f\n", i, static_cast<double>(span.bytes) / 1e6, 1e3 * span.begin,
                1e3 * span.end);
    bytes += span.bytes;
    if (span.end <= BackwardEnd(spans)) hidden += span.bytes;
  }
  const double megabytes = static_cast<double>(bytes) / 1e6;
  const double ratio = flat_seconds / bucket_seconds;
  std::printf(
      "%s on %s, over %s: %.2f MB; the backward pass ends at %.2f ms, and the exchange %.2f ms later\n",
      flags.model.c_str(), device.str().c_str(), how.c_str(), megabytes, 1e3 * BackwardEnd(spans),
      1e3 * Exposed(spans));
  if (device.is_cpu()) {
    std::puts(
        "(on a CPU an exchange is seen to end when it is waited for, which is after the backward pass)");
  } else {
    std::printf("%.2f MB had been exchanged when the backward pass ended\n",
                static_cast<double>(hidden) / 1e6);
  }
  std::printf(
      "without a backward pass: %.2f ms in buckets, %.2f ms (%.2f GB/s) in one piece: %.2f of its "
      "bandwidth\n",
      1e3 * bucket_seconds, 1e3 * flat_seconds, megabytes / 1e3 / flat_seconds, ratio);
  std::printf(
      R"({"model":"%s","device":"%s","over":"%s","buckets":%zu,"megabytes":%.3f,"backward_ms":%.3f,"exposed_ms":%.3f,)"
      R"("flat_ms":%.3f,"buckets_ms":%.3f,"bandwidth_ratio":%.3f})"
      "\n",
      flags.model.c_str(), device.str().c_str(), how.c_str(), spans.size(), megabytes,
      1e3 * BackwardEnd(spans), 1e3 * Exposed(spans), 1e3 * flat_seconds, 1e3 * bucket_seconds, ratio);
}

absl::Status Run(const Flags& flags, int rank, comm::TcpRendezvous& rendezvous) {
  const torch::Device device = DeviceNamed(flags.device);
  absl::StatusOr<Connection> connection = Connect(rendezvous, rank, device);
  if (!connection.ok()) return connection.status();
  Member member(flags, device, *std::move(connection));
  absl::StatusOr<std::vector<Spans>> exchanges = member.Train(flags.steps);
  if (!exchanges.ok()) return exchanges.status();
  const Spans typical = Typical(*std::move(exchanges));
  std::vector<int64_t> sizes;
  int64_t all = 0;
  for (const auto& span : typical) {
    sizes.push_back(span.bytes / 4 * 4);
    all += sizes.back();
  }
  const absl::StatusOr<double> in_buckets = member.AllReduce(sizes);
  if (!in_buckets.ok()) return in_buckets.status();
  const absl::StatusOr<double> flat = member.AllReduce({all});
  if (!flat.ok()) return flat.status();
  if (rank == 0) Print(flags, device, member.how(), typical, *flat, *in_buckets);
  return absl::OkStatus();
}

// What NCCL is to take for two hosts.
void PretendHost(int rank) {
  // NOLINTBEGIN(concurrency-mt-unsafe): there is one thread
  setenv("NCCL_HOSTID", absl::StrFormat("adaptdl-bench-%d", rank).c_str(), /*overwrite=*/1);
  setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/1);
  // NOLINTEND(concurrency-mt-unsafe)
}

absl::Status RunRank1(const Flags& flags, int address_pipe) {
  std::string address;
  char next = 0;
  while (read(address_pipe, &next, 1) == 1) address.push_back(next);
  auto rendezvous = comm::TcpRendezvous::Join(address);
  if (!rendezvous.ok()) return rendezvous.status();
  return Run(flags, 1, **rendezvous);
}

absl::Status RunRank0(const Flags& flags, int address_pipe) {
  auto rendezvous = comm::TcpRendezvous::Host("127.0.0.1");
  if (!rendezvous.ok()) return rendezvous.status();
  const std::string& address = (*rendezvous)->address();
  if (write(address_pipe, address.data(), address.size()) < 0)
    return absl::InternalError("the pipe is closed");
  close(address_pipe);
  return Run(flags, 0, **rendezvous);
}

int Main(const Flags& flags) {
  int ends[2];
  if (pipe(ends) != 0) return 1;
  // Before there are threads, or a GPU is in use.
  const pid_t child = fork();
  if (child < 0) return 1;
  close(ends[child == 0 ? 1 : 0]);
  PretendHost(child == 0 ? 1 : 0);
  const absl::Status status = child == 0 ? RunRank1(flags, ends[0]) : RunRank0(flags, ends[1]);
  if (!status.ok()) std::fprintf(stderr, "exchange_bench: %s\n", status.ToString().c_str());
  if (child == 0) return status.ok() ? 0 : 1;
  int code = 0;
  waitpid(child, &code, 0);
  return status.ok() && code == 0 ? 0 : 1;
}

Flags Parse(int argc, char** argv) {
  Flags flags;
  CLI::App app{"How gradients travel between two replicas on one machine."};
  app.add_option("--device", flags.device, "auto, cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--model", flags.model, "resnet18 or transformer")
      ->check(CLI::IsMember({kResNet18.name, kTransformer.name}))
      ->capture_default_str();
  app.add_option("--batch", flags.batch, "samples of each replica; 0: as the goals for this model have it")
      ->check(CLI::Range(0, 1 << 16))
      ->capture_default_str();
  app.add_option("--steps", flags.steps, "steps to trace, after three others")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));  // NOLINT(concurrency-mt-unsafe): the only thread
  }
  return flags;
}

}  // namespace
}  // namespace adaptdl::bench

int main(int argc, char** argv) { return adaptdl::bench::Main(adaptdl::bench::Parse(argc, argv)); }
