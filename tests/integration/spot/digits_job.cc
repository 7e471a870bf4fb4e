// The job of spot_test: trains examples/mnist's network on digits until the file "<folder>/finish" is there, and notes
// each step (step_record.h).
//
//   digits_job FOLDER [flags of adaptdl-mnist]

#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "adaptdl/adaptdl.h"
#include "examples/mnist/digits.h"
#include "examples/mnist/net.h"
#include "examples/mnist/report.h"
#include "libs/elastic/job/job_core.h"
#include "tests/integration/chaos/step_record.h"
#include "torch/nn/functional.h"
#include "torch/optim/adam.h"
#include "torch/utils.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: digits_job FOLDER [flags of adaptdl-mnist]\n");
    return 2;
  }
  const std::string folder = argv[1];
  const examples::Options options = mnist::ParseOptions(argc - 1, argv + 1);
  const auto job = adaptdl::Init();
  torch::set_num_threads(1);
  torch::manual_seed(options.seed);
  auto [train, test] = mnist::LoadDigits(options);
  mnist::Net net;
  torch::optim::Adam optimizer(net->parameters(), options.learning_rate);
  const adaptdl::integration::StepRecord record(folder);
  adaptdl::AdaptiveDataParallel parallel(*job, *net, optimizer);
  adaptdl::AdaptiveDataLoader loader(*job, static_cast<int64_t>(*train.size()),
                                     {.batch_size = options.batch_size, .seed = options.seed});
  for (const int epoch : adaptdl::RemainingEpochsUntil(*job, std::numeric_limits<int>::max())) {
    adaptdl::Accumulator sums(*job);
    if (loader.BeginLoop()) {
      while (loader.Next()) {
        const int64_t step = job->optimizer_steps();
        const int64_t group = job->core().team().membership().group;
        record.Begin(step, group, loader);
        const std::vector<size_t> indices(loader.indices().begin(), loader.indices().end());
        const auto batch = train.get_batch(indices);
        parallel.ZeroGrad();
        const auto loss = torch::nll_loss(net->forward(batch.data), batch.target);
        loss.backward();
        parallel.Step();
        sums["loss"] += loss.item<double>() * static_cast<double>(loader.weight());
        sums["samples"] += static_cast<double>(loader.weight());
        if (job->optimizer_steps() != step + 1) continue;
        record.End(step, group, adaptdl::integration::ChecksumOf(*net, loader.batch_size()));
      }
    }
    sums["to finish"] += std::filesystem::exists(folder + "/finish") ? 1 : 0;
    sums.Synchronize();
    mnist::ReportEpoch(epoch, sums["loss"] / sums["samples"], mnist::Evaluate(net, test));
    if (sums["to finish"] > 0) break;
  }
  mnist::ReportResult(mnist::Evaluate(net, test), options);
}
