// What the examples tell their users.

#ifndef ADAPTDL_EXAMPLES_COMMON_REPORT_H_
#define ADAPTDL_EXAMPLES_COMMON_REPORT_H_

#include <map>
#include <string>

namespace examples {

// Named sums over the samples of an epoch.
using Sums = std::map<std::string, double>;

// One line on stdout: the loss, and how well the model does on the test data, by a measure such as
// "accuracy".
void ReportEpoch(int epoch, double train_loss, const std::string& measure, double value);

// Says on stderr what is wrong with the data, and ends the process.
[[noreturn]] void Fail(const std::string& what);

}  // namespace examples

#endif  // ADAPTDL_EXAMPLES_COMMON_REPORT_H_
