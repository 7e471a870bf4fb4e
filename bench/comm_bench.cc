// What collectives cost between two members on one machine: threads of this process that talk over the
// loopback.
//
// "Gloo" is Gloo's own all-reduce over the same kind of connections, in the same run: ours may not be slower.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "gloo/allreduce.h"
#include "gloo/math.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/hash_store.h"
#include "gloo/transport/tcp/device.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/comm/tcp_communicator.h"

namespace adaptdl::comm {
namespace {

constexpr int kMembers = 2;

// Runs `step` again and again in a second member until told to stop; the first decides, with its own
// exchange.
class SecondMember {
 public:
  explicit SecondMember(std::function<bool()> step)
      : thread_([step = std::move(step)] {
          while (step()) {
          }
        }) {}
  ~SecondMember() { thread_.join(); }

 private:
  std::thread thread_;
};

struct Pair {
  std::unique_ptr<TcpRendezvous> host;
  std::unique_ptr<TcpRendezvous> guest;
  std::unique_ptr<Communicator> first;
  std::unique_ptr<Communicator> second;
};

std::unique_ptr<Communicator> Connect(TcpRendezvous& rendezvous, int rank, int64_t group) {
  auto member = ConnectTcp(
      rendezvous,
      {.rank = rank, .size = kMembers, .group = group, .host = "127.0.0.1", .timeout = absl::Minutes(1)});
  return member.ok() ? *std::move(member) : nullptr;
}

Pair MakePair() {
  Pair pair;
  pair.host = *TcpRendezvous::Host("127.0.0.1");
  pair.guest = *TcpRendezvous::Join(pair.host->address());
  std::thread other([&pair] { pair.second = Connect(*pair.guest, 1, 0); });
  pair.first = Connect(*pair.host, 0, 0);
  other.join();
  return pair;
}

// The all-reduce of one member: how it is run differs, what it does not.
using AllReduceFunction = std::function<void(std::vector<float>*)>;

// Both reduce state.range(0) floats. The last element tells the second member to stop.
void MeasurePair(benchmark::State& state, const AllReduceFunction& first, const AllReduceFunction& second) {
  std::vector<float> mine(state.range(0), 0.0f);
  std::vector<float> others(state.range(0), 0.0f);
  SecondMember member([&] {
    second(&others);
    return others.back() == 0.0f;
  });
  for (auto _ : state) first(&mine);
  mine.back() = 1.0f;
  first(&mine);
  state.SetBytesProcessed(state.iterations() * state.range(0) * static_cast<int64_t>(sizeof(float)));
}

void BM_AllReduce(benchmark::State& state) {
  Pair pair = MakePair();
  const auto run = [](Communicator* member) {
    return
        [member](std::vector<float>* values) { (void)member->AllReduce(BufferOf(absl::MakeSpan(*values))); };
  };
  MeasurePair(state, run(pair.first.get()), run(pair.second.get()));
}
BENCHMARK(BM_AllReduce)
    ->Arg(4)
    ->Arg(1 << 12)
    ->Arg(1 << 16)
    ->Arg(1'300'000)
    ->Arg(1 << 20)
    ->Arg(1 << 23)
    ->Arg(25 << 20)
    ->UseRealTime();

// The same amount in four buckets that are under way at once.
void BM_AllReduceInBuckets(benchmark::State& state) {
  Pair pair = MakePair();
  const auto run = [](Communicator* member) {
    return [member](std::vector<float>* values) {
      const size_t quarter = values->size() / 4;
      std::vector<std::unique_ptr<Work>> works;
      for (size_t i = 0; i < 4; ++i) {
        const size_t count = i == 3 ? values->size() - 3 * quarter : quarter;
        works.push_back(
            member->AllReduceAsync(BufferOf(absl::MakeSpan(values->data() + i * quarter, count))));
      }
      for (const auto& work : works) (void)work->Wait();
    };
  };
  MeasurePair(state, run(pair.first.get()), run(pair.second.get()));
}
BENCHMARK(BM_AllReduceInBuckets)->Arg(1'300'000)->UseRealTime();

void BM_GlooAllReduce(benchmark::State& state) {
  gloo::rendezvous::HashStore store;
  std::vector<std::shared_ptr<gloo::rendezvous::Context>> contexts(kMembers);
  const auto connect = [&](int rank) {
    gloo::transport::tcp::attr listen("127.0.0.1");
    contexts[rank] = std::make_shared<gloo::rendezvous::Context>(rank, kMembers);
    auto device = gloo::transport::tcp::CreateDevice(listen);
    contexts[rank]->connectFullMesh(store, device);
  };
  std::thread other([&] { connect(1); });
  connect(0);
  other.join();
  const auto run = [](std::shared_ptr<gloo::rendezvous::Context> context) {
    return [context](std::vector<float>* values) {
      gloo::AllreduceOptions options(context);
      options.setOutput(values->data(), values->size());
      options.setReduceFunction(
          [](void* a, const void* b, const void* c, size_t n) { gloo::sum<float>(a, b, c, n); });
      gloo::allreduce(options);
    };
  };
  MeasurePair(state, run(contexts[0]), run(contexts[1]));
}
BENCHMARK(BM_GlooAllReduce)
    ->Arg(4)
    ->Arg(1 << 12)
    ->Arg(1 << 16)
    ->Arg(1'300'000)
    ->Arg(1 << 20)
    ->Arg(1 << 23)
    ->Arg(25 << 20)
    ->UseRealTime();

void BM_InProcessAllReduce(benchmark::State& state) {
  auto members = CreateInProcessGroup(kMembers);
  const auto run = [](Communicator* member) {
    return
        [member](std::vector<float>* values) { (void)member->AllReduce(BufferOf(absl::MakeSpan(*values))); };
  };
  MeasurePair(state, run(members[0].get()), run(members[1].get()));
}
BENCHMARK(BM_InProcessAllReduce)->Arg(4)->Arg(1'300'000)->UseRealTime();

// From two processes' worth of nothing to a group that has done its first exchange; without taking it down.
void BM_FormGroup(benchmark::State& state) {
  const auto host = *TcpRendezvous::Host("127.0.0.1");
  const auto guest = *TcpRendezvous::Join(host->address());
  int64_t group = 0;
  for (auto _ : state) {
    ++group;
    std::unique_ptr<Communicator> second;
    std::thread other([&] {
      second = Connect(*guest, 1, group);
      (void)second->Barrier();
    });
    std::unique_ptr<Communicator> first = Connect(*host, 0, group);
    (void)first->Barrier();
    other.join();
    state.PauseTiming();
    first.reset();
    second.reset();
    state.ResumeTiming();
  }
}
BENCHMARK(BM_FormGroup)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_TakeDownGroup(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    Pair pair = MakePair();
    state.ResumeTiming();
    pair.first.reset();
    pair.second.reset();
  }
}
BENCHMARK(BM_TakeDownGroup)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace adaptdl::comm
