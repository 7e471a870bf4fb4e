#include "examples/common/report.h"

#include <cstdio>
#include <cstdlib>

namespace examples {

void ReportEpoch(int epoch, double train_loss, const std::string& measure, double value) {
  std::printf("epoch %d: train loss %.4f, test %s %.4f\n", epoch + 1, train_loss, measure.c_str(), value);
  std::fflush(stdout);
}

void Fail(const std::string& what) {
  std::fprintf(stderr, "error: %s\n", what.c_str());
  std::exit(1);  // NOLINT(concurrency-mt-unsafe): before any other thread
}

}  // namespace examples
