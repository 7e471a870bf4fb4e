#include "examples/mnist/report.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace mnist {

void ReportEpoch(int epoch, double train_loss, double test_accuracy) {
  std::printf("epoch %d: train loss %.4f, test accuracy %.2f %%\n", epoch + 1, train_loss,
              100 * test_accuracy);
  std::fflush(stdout);
}

void ReportResult(double test_accuracy, const examples::Options& options) {
  if (const char* share =
          std::getenv("ADAPTDL_SHARE_PATH")) {  // NOLINT(concurrency-mt-unsafe): nobody sets any
    const std::string path = std::string(share) + "/result.json";
    // Replicas may write it at the same time: each beside it, then renamed.
    const std::string temporary = path + "." + std::to_string(getpid());
    if (std::FILE* file = std::fopen(temporary.c_str(), "w")) {
      std::fprintf(file, "{\"test_accuracy\": %.4f, \"epochs\": %d, \"batch_size\": %lld}\n", test_accuracy,
                   options.epochs, static_cast<long long>(options.batch_size));
      std::fclose(file);
      std::rename(temporary.c_str(), path.c_str());
    } else {
      std::perror(temporary.c_str());
    }
  }
  std::printf("test accuracy: %.2f %%\n", 100 * test_accuracy);
  std::fflush(stdout);
}

}  // namespace mnist
