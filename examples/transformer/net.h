// A text, and a transformer (Vaswani et al., "Attention Is All You Need", 2017) that predicts its next byte.

#ifndef ADAPTDL_EXAMPLES_TRANSFORMER_NET_H_
#define ADAPTDL_EXAMPLES_TRANSFORMER_NET_H_

#include <cstdint>

#include "examples/common/options.h"
#include "torch/nn/modules/embedding.h"
#include "torch/nn/modules/linear.h"
#include "torch/nn/modules/transformercoder.h"
#include "torch/nn/pimpl.h"

namespace transformer {

// Bytes that the network sees at once.
inline constexpr int64_t kLength = 32;

class NetImpl : public torch::nn::Module {
 public:
  explicit NetImpl(int64_t width);

  // `input`: bytes, [length, rows]. Logits of the bytes after them: [length, rows, 256].
  torch::Tensor forward(const torch::Tensor& input);

 private:
  torch::nn::Embedding bytes_{nullptr};
  torch::nn::Embedding places_{nullptr};
  torch::nn::TransformerEncoder encoder_{nullptr};
  torch::nn::Linear out_{nullptr};
};
TORCH_MODULE(Net);

// Mean over the bytes, in nats. `target`: bytes, [length, rows].
torch::Tensor LossOf(const torch::Tensor& logits, const torch::Tensor& target);

examples::Options ParseOptions(int argc, char** argv, examples::Program program);

struct TrainAndTest {
  torch::Tensor train;
  torch::Tensor test;
};

// The first nine tenths and the rest of the file options.data, or of sums, as bytes. Ends the process with a
// message if the file cannot be read or is too short. A text is small: all of it is on `device`.
TrainAndTest LoadText(const examples::Options& options, const torch::Device& device);

// Loss on `text`.
double Evaluate(Net& net, const torch::Tensor& text);

}  // namespace transformer

#endif  // ADAPTDL_EXAMPLES_TRANSFORMER_NET_H_
