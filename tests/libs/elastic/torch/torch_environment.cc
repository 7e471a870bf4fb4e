// Linked into tests in which LibTorch runs in several threads: it makes its random generator at the first
// use, and how it guards that is nothing that ThreadSanitizer can see. Here it is made before there are
// threads.

#include "gtest/gtest.h"
#include "torch/utils.h"

namespace {

class TorchEnvironment final : public testing::Environment {
 public:
  void SetUp() override { torch::manual_seed(1); }
};

// GoogleTest owns it.
[[maybe_unused]] const testing::Environment* const environment =
    testing::AddGlobalTestEnvironment(new TorchEnvironment);

}  // namespace
