// The goodput model (libs/goodput) as C functions, for adaptdl.goodput.
//
// All arrays are the caller's; `count` is the length of each. Functions return 0, or 1 and a text for people, cut to
// `error_size` bytes with the ending NUL. They keep nothing, throw nothing, and are thread-safe.

#ifndef ADAPTDL_PYTHON_ENGINE_GOODPUT_H_
#define ADAPTDL_PYTHON_ENGINE_GOODPUT_H_

#include <cstdint>

#define ADAPTDL_GOODPUT_CALL __attribute__((visibility("default")))

extern "C" {

struct adaptdl_goodput_model {
  // alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r (seconds), gamma.
  double perf[7];
  // Squared norm of the gradient, and its variance, at the initial batch size.
  double grad[2];
  // Samples, over all replicas.
  int64_t init_batch_size;
};

struct adaptdl_goodput_limits {
  // Samples; 0: as BatchLimits has it.
  int64_t max_batch_size;
  int64_t min_local;
  int64_t max_local;
  int32_t accumulation;
};

// Samples per second, by topology and batch.
ADAPTDL_GOODPUT_CALL int adaptdl_goodput_throughput(const adaptdl_goodput_model* model, int64_t count,
                                                    const int64_t* nodes, const int64_t* replicas,
                                                    const int64_t* atomic_batch_sizes,
                                                    const int64_t* accumulation_steps, double* throughputs,
                                                    char* error, int64_t error_size);

// Worth of a sample, by total batch size.
ADAPTDL_GOODPUT_CALL int adaptdl_goodput_efficiency(const adaptdl_goodput_model* model, int64_t count,
                                                    const double* batch_sizes, double* efficiencies,
                                                    char* error, int64_t error_size);

// Times of a micro-step, of an exchange, and of the step that ends with one, in seconds. Batch sizes may be any
// positive numbers.
ADAPTDL_GOODPUT_CALL int adaptdl_goodput_times(const double* perf, int64_t count, const int64_t* nodes,
                                               const int64_t* replicas, const double* atomic_batch_sizes,
                                               double* accum_times, double* network_times,
                                               double* optim_times, char* error, int64_t error_size);

// What AdaptDL's optimize() answers, by topology.
ADAPTDL_GOODPUT_CALL int adaptdl_goodput_optimize(const adaptdl_goodput_model* model,
                                                  const adaptdl_goodput_limits* limits, int64_t count,
                                                  const int64_t* nodes, const int64_t* replicas,
                                                  double* goodputs, int64_t* atomic_batch_sizes,
                                                  int64_t* accumulation_steps, char* error,
                                                  int64_t error_size);

// The parameters that explain these step times (seconds) best.
ADAPTDL_GOODPUT_CALL int adaptdl_goodput_fit(int64_t count, const int64_t* nodes, const int64_t* replicas,
                                             const int64_t* atomic_batch_sizes, const double* accum_times,
                                             const double* optim_times, double* perf, char* error,
                                             int64_t error_size);

// What the fit minimises, for these parameters.
ADAPTDL_GOODPUT_CALL int adaptdl_goodput_loss(const double* perf, int64_t count, const int64_t* nodes,
                                              const int64_t* replicas, const int64_t* atomic_batch_sizes,
                                              const double* accum_times, const double* optim_times,
                                              double* loss, char* error, int64_t error_size);

}  // extern "C"

#endif  // ADAPTDL_PYTHON_ENGINE_GOODPUT_H_
