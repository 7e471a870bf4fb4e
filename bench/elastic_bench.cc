// What the training library costs: optimiser steps of a program made elastic, against those of the same plain
// LibTorch program. The two take turns in one run, so that both see the same machine; one thread, one
// replica.
//
//   nice -n -15 build/release/bench/elastic_bench
//   ADAPTDL_KEEP_MEMORY=0 nice -n -15 build/release/bench/elastic_bench     # as malloc is by itself
//
// Steps are compared in pairs, plain and elastic first by turns. Some of an elastic program's steps do more
// than others (gradient statistics), in a fixed period: the median of the differences is taken for each place
// in that period, and the mean of these medians is the overhead. So a pair that was disturbed does not
// count, and a step that is dear does.
//
// Counters: milliseconds of a plain and of an elastic step; by how much the latter is longer, in per cent, by
// the clock and by the processor time of all threads; page faults of a plain step; memory of the process in
// MB at the end.

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "adaptdl/adaptdl.h"
#include "benchmark/benchmark.h"
#include "gloo/allreduce.h"
#include "gloo/math.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/hash_store.h"
#include "gloo/transport/tcp/device.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/comm/tcp_communicator.h"
#include "libs/elastic/control/environment.h"
#include "libs/elastic/control/standalone_control_plane.h"
#include "libs/elastic/host/freed_memory.h"
#include "libs/elastic/host/process_host.h"
#include "libs/elastic/job/job_core.h"
#include "torch/data.h"
#include "torch/nn/functional.h"
#include "torch/nn/modules/conv.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

namespace adaptdl {
namespace {

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The CNN of PyTorch's own MNIST example: 1.2 million parameters, nearly all in one linear layer.
struct NetImpl : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(conv1->forward(x));
    x = torch::max_pool2d(torch::relu(conv2->forward(x)), 2);
    x = torch::relu(linear1->forward(x.flatten(1)));
    return torch::log_softmax(linear2->forward(x), 1);
  }
  torch::nn::Conv2d conv1 = register_module("conv1", torch::nn::Conv2d(1, 32, 3));
  torch::nn::Conv2d conv2 = register_module("conv2", torch::nn::Conv2d(32, 64, 3));
  torch::nn::Linear linear1 = register_module("linear1", torch::nn::Linear(9216, 128));
  torch::nn::Linear linear2 = register_module("linear2", torch::nn::Linear(128, 10));
};
TORCH_MODULE(Net);

// Images in main memory: the time of a step does not depend on what they show.
class Images : public torch::data::datasets::Dataset<Images> {
 public:
  torch::data::Example<> get(size_t index) override {
    return {images_[static_cast<int64_t>(index)], labels_[static_cast<int64_t>(index)]};
  }
  torch::optional<size_t> size() const override { return static_cast<size_t>(labels_.size(0)); }

 private:
  torch::Tensor images_ = torch::rand({8192, 1, 28, 28});
  torch::Tensor labels_ = torch::randint(10, {8192}, torch::kLong);
};

using Stacked = decltype(Images().map(torch::data::transforms::Stack<>()));

torch::optim::SGD MakeOptimizer(Net& net) {
  return torch::optim::SGD(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
}

// Averages what two threads hold.
using Average = std::function<void(std::vector<float>*)>;

class Plain {
 public:
  // `average`: over the replicas; none for a single one.
  Plain(const Stacked& images, int64_t batch, Average average = nullptr)
      : average_(std::move(average)),
        loader_(torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
            images, static_cast<size_t>(batch))),
        optimizer_(MakeOptimizer(net_)) {}

  void Step() {
    if (!at_ || *at_ == loader_->end()) {
      at_.emplace(loader_->begin());
    }
    auto& batch = **at_;
    optimizer_.zero_grad();
    torch::nll_loss(net_->forward(batch.data), batch.target).backward();
    if (average_) AverageGradients();
    optimizer_.step();
    ++*at_;
  }

 private:
  void AverageGradients() {
    size_t count = 0;
    for (const torch::Tensor& parameter : net_->parameters()) count += static_cast<size_t>(parameter.numel());
    flat_.resize(count);
    float* at = flat_.data();
    for (const torch::Tensor& parameter : net_->parameters()) {
      at = std::copy_n(parameter.grad().data_ptr<float>(), parameter.numel(), at);
    }
    average_(&flat_);
    at = flat_.data();
    for (const torch::Tensor& parameter : net_->parameters()) {
      std::copy_n(at, parameter.numel(), parameter.grad().data_ptr<float>());
      at += parameter.numel();
    }
  }

  Net net_;
  const Average average_;
  std::vector<float> flat_;
  using Loader = decltype(torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      std::declval<Stacked>(), size_t{1}));
  Loader loader_;
  torch::optim::SGD optimizer_;
  std::optional<decltype(std::declval<Loader>()->begin())> at_;
};

std::unique_ptr<Job> MakeJob(std::unique_ptr<comm::Communicator> communicator) {
  elastic::JobDependencies dependencies;
  dependencies.environment.replica_rank = communicator->rank();
  dependencies.environment.num_replicas = communicator->size();
  dependencies.control = std::make_unique<elastic::StandaloneControlPlane>(dependencies.environment);
  dependencies.transport = elastic::TransportOfOne();
  dependencies.transport.connect =
      [shared = std::make_shared<std::unique_ptr<comm::Communicator>>(std::move(communicator))](
          const elastic::GroupMembership&) { return std::move(*shared); };
  dependencies.host = elastic::ProcessHost();
  return std::make_unique<Job>(*elastic::JobCore::Create(std::move(dependencies)));
}

class Elastic {
 public:
  // `batch`: of all replicas.
  Elastic(const Stacked& images, int64_t batch, std::unique_ptr<comm::Communicator> communicator)
      : job_(MakeJob(std::move(communicator))),
        loader_(*job_, images, {.batch_size = batch}),
        optimizer_(MakeOptimizer(net_)),
        parallel_(*job_, *net_, optimizer_) {}

  void Step() {
    if (!at_ || !(*at_ != loader_.end())) {
      at_.reset();
      at_.emplace(&loader_);
    }
    auto& batch = **at_;
    parallel_.ZeroGrad();
    torch::nll_loss(net_->forward(batch.data), batch.target).backward();
    parallel_.Step();
    ++*at_;
  }

 private:
  std::unique_ptr<Job> job_;
  Net net_;
  DataLoader<Stacked> loader_;
  torch::optim::SGD optimizer_;
  AdaptiveDataParallel parallel_;
  std::optional<DataLoader<Stacked>::Iterator> at_;
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double ProcessorSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

int64_t PageFaults() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

double ResidentMegabytes() {
  std::ifstream statm("/proc/self/statm");
  double size = 0;
  double resident = 0;
  statm >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

struct StepCost {
  double seconds = 0;
  double processor_seconds = 0;
  double page_faults = 0;
};

template <typename Program>
StepCost CostOfStep(Program& program) {
  const int64_t faults = PageFaults();
  const double processor = ProcessorSeconds();
  const double start = Seconds();
  program.Step();
  return {Seconds() - start, ProcessorSeconds() - processor, static_cast<double>(PageFaults() - faults)};
}

// Of the elastic program's steps.
size_t Period() { return static_cast<size_t>(DataParallelOptions().statistics_period); }

// Medians by place in the period, and the mean of these.
double Typical(const std::vector<double>& values) {
  std::vector<std::vector<double>> by_place(Period());
  for (size_t i = 0; i < values.size(); ++i) by_place[i % Period()].push_back(values[i]);
  double sum = 0;
  int places = 0;
  for (std::vector<double>& place : by_place) {
    if (place.empty()) continue;
    sum += Median(std::move(place));
    ++places;
  }
  return sum / places;
}

// One plain and one elastic step in turns.
template <typename PlainProgram, typename ElasticProgram>
void Compare(benchmark::State& state, PlainProgram& plain, ElasticProgram& elastic) {
  for (size_t warm_up = 0; warm_up < 2 * Period(); ++warm_up) {
    plain.Step();
    elastic.Step();
  }
  std::vector<StepCost> plain_costs;
  std::vector<StepCost> elastic_costs;
  for ([[maybe_unused]] auto iteration : state) {
    // Each place in the period comes in both orders.
    const size_t step = plain_costs.size();
    if ((step + step / Period()) % 2 == 0) {
      plain_costs.push_back(CostOfStep(plain));
      elastic_costs.push_back(CostOfStep(elastic));
    } else {
      elastic_costs.push_back(CostOfStep(elastic));
      plain_costs.push_back(CostOfStep(plain));
    }
  }
  const auto typical = [&](double StepCost::*cost) {
    std::vector<double> of_plain;
    std::vector<double> differences;
    for (size_t i = 0; i < plain_costs.size(); ++i) {
      of_plain.push_back(plain_costs[i].*cost);
      differences.push_back(elastic_costs[i].*cost - plain_costs[i].*cost);
    }
    return std::pair(Typical(of_plain), Typical(differences));
  };
  const auto [seconds, more_seconds] = typical(&StepCost::seconds);
  const auto [processor, more_processor] = typical(&StepCost::processor_seconds);
  state.counters["plain_ms"] = 1e3 * seconds;
  state.counters["elastic_ms"] = 1e3 * (seconds + more_seconds);
  state.counters["overhead_pct"] = 100 * more_seconds / seconds;
  state.counters["cpu_overhead_pct"] = 100 * more_processor / processor;
  state.counters["plain_faults"] = typical(&StepCost::page_faults).first;
  state.counters["resident_MB"] = ResidentMegabytes();
}

void Overhead(benchmark::State& state) {
  torch::set_num_threads(1);
  const Stacked images = Images().map(torch::data::transforms::Stack<>());
  Plain plain(images, state.range(0));
  Elastic elastic(images, state.range(0), std::move(comm::CreateInProcessGroup(1).front()));
  Compare(state, plain, elastic);
}

// Two members of a program, one of them in a thread of its own: steps of both at once.
template <typename Program>
class Two {
 public:
  using Make = std::function<std::unique_ptr<Program>(int rank)>;

  explicit Two(const Make& make)
      : other_([this, make] {
          const std::unique_ptr<Program> program = make(1);
          for (;;) {
            turn_.arrive_and_wait();
            if (ending_) return;
            program->Step();
            turn_.arrive_and_wait();
          }
        }),
        program_(make(0)) {}
  ~Two() {
    ending_ = true;
    turn_.arrive_and_wait();
    other_.join();
  }
  Two(const Two&) = delete;
  Two& operator=(const Two&) = delete;

  void Step() {
    turn_.arrive_and_wait();
    program_->Step();
    turn_.arrive_and_wait();
  }

 private:
  std::barrier<> turn_{2};
  std::atomic<bool> ending_{false};
  std::thread other_;
  const std::unique_ptr<Program> program_;
};

// Gloo's own collectives, between two threads of this process.
class GlooPair {
 public:
  GlooPair() {
    std::thread other([this] { Connect(1); });
    Connect(0);
    other.join();
  }

  Average Member(int rank) {
    return [context = contexts_[static_cast<size_t>(rank)]](std::vector<float>* values) {
      gloo::AllreduceOptions options(context);
      options.setOutput(values->data(), values->size());
      options.setReduceFunction(
          [](void* a, const void* b, const void* c, size_t n) { gloo::sum<float>(a, b, c, n); });
      gloo::allreduce(options);
      for (float& value : *values) value *= 0.5f;
    };
  }

 private:
  void Connect(int rank) {
    auto& context = contexts_[static_cast<size_t>(rank)];
    context = std::make_shared<gloo::rendezvous::Context>(rank, 2);
    auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
    context->connectFullMesh(store_, device);
  }

  gloo::rendezvous::HashStore store_;
  std::array<std::shared_ptr<gloo::rendezvous::Context>, 2> contexts_;
};

std::array<std::unique_ptr<comm::Communicator>, 2> ConnectTwo() {
  std::unique_ptr<comm::TcpRendezvous> host = *comm::TcpRendezvous::Host("127.0.0.1", 0);
  std::array<std::unique_ptr<comm::Communicator>, 2> members;
  std::thread other([&] {
    const auto guest = *comm::TcpRendezvous::Join(host->address());
    members[1] = *comm::ConnectTcp(*guest, {.rank = 1, .size = 2});
  });
  members[0] = *comm::ConnectTcp(*host, {.rank = 0, .size = 2});
  other.join();
  return members;
}

void TwoReplicas(benchmark::State& state) {
  torch::set_num_threads(1);
  const Stacked images = Images().map(torch::data::transforms::Stack<>());
  GlooPair gloo;
  auto members = ConnectTwo();
  Two<Plain> plain(
      [&](int rank) { return std::make_unique<Plain>(images, state.range(0) / 2, gloo.Member(rank)); });
  Two<Elastic> elastic([&](int rank) {
    return std::make_unique<Elastic>(images, state.range(0), std::move(members[static_cast<size_t>(rank)]));
  });
  Compare(state, plain, elastic);
}

BENCHMARK(Overhead)
    ->Name("overhead")
    ->ArgName("batch")
    ->Arg(8)
    ->Arg(64)
    ->Unit(benchmark::kMillisecond)
    ->MinTime(60);
BENCHMARK(TwoReplicas)
    ->Name("two_replicas")
    ->ArgName("batch")
    ->Arg(16)
    ->Arg(128)
    ->Unit(benchmark::kMillisecond)
    ->MinTime(20)
    ->UseRealTime();

}  // namespace
}  // namespace adaptdl

int main(int argc, char** argv) {
  const auto environment = adaptdl::elastic::ReadEnvironment(adaptdl::elastic::GetFromProcess);
  if (!environment.ok()) std::abort();
  if (environment->keep_freed_memory) adaptdl::elastic::KeepFreedMemory(adaptdl::elastic::GetFromProcess);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
