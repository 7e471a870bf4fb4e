// What the MNIST example tells its user.

#ifndef ADAPTDL_EXAMPLES_MNIST_REPORT_H_
#define ADAPTDL_EXAMPLES_MNIST_REPORT_H_

#include <map>
#include <string>

#include "examples/common/options.h"

namespace mnist {

// Named sums over the samples of an epoch.
using Sums = std::map<std::string, double>;

// One line on stdout.
void ReportEpoch(int epoch, double train_loss, double test_accuracy);

// The last line on stdout, and result.json in $ADAPTDL_SHARE_PATH if that is set.
void ReportResult(double test_accuracy, const examples::Options& options);

}  // namespace mnist

#endif  // ADAPTDL_EXAMPLES_MNIST_REPORT_H_
