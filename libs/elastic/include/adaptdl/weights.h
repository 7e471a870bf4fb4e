// A model's weights in a file of their own, in the safetensors format, which Python loads:
//
//   adaptdl::ExportWeights(*model, job->share_path() + "/model.safetensors");
//
//   weights = safetensors.torch.load_file("model.safetensors")     # in Python
//
// Thread-safety: the thread that trains the model.

#ifndef ADAPTDL_WEIGHTS_H_
#define ADAPTDL_WEIGHTS_H_

#include <string>

namespace torch::nn {
class Module;
}

namespace adaptdl {

// Replaces the file at `path` by the parameters and buffers of `model`, as a whole or not at all. False: it
// could not be written; why is said on stderr.
bool ExportWeights(const torch::nn::Module& model, const std::string& path);

// Sets all parameters and buffers of `model` to what such a file holds. False: it cannot be read, or is of
// another model; why is said on stderr, and the model is as it was.
bool ImportWeights(torch::nn::Module& model, const std::string& path);

}  // namespace adaptdl

#endif  // ADAPTDL_WEIGHTS_H_
