// The engine's C interface: what Python's package calls by ctypes. One build of it serves every version of Python and
// of PyTorch, as it knows neither: tensors cross as addresses, counts and types.
//
// Every function that can fail returns a status: ADAPTDL_OK, or
//   ADAPTDL_ERROR     adaptdl_last_error() says what was wrong, and what to do
//   ADAPTDL_EXIT      the process is to end with adaptdl_last_exit_code(): stopped on request, or a peer was lost
//   ADAPTDL_CALLBACK  a callback did not return 0: the caller knows why
// No C++ exception crosses. Callbacks run on the calling thread, within the call.
//
// Ownership: what open() gives is closed by close(), in reverse order, the job last. Memory that is handed over stays
// the caller's, and must last as long as the object that it was given to, or, for a call's arguments, as long as the
// call. What is read out (bytes, indices) stays until the next call on the same object.
//
// Thread-safety: the training thread; adaptdl_job_request_stop(), adaptdl_job_request_checkpoint() and adaptdl_job_report()
// from any thread, adaptdl_log_next() from one more.
// Calls that wait for other replicas may take as long as ADAPTDL_COLLECTIVE_TIMEOUT_SECONDS says.

#ifndef ADAPTDL_PYTHON_ENGINE_ADAPTDL_ENGINE_H_
#define ADAPTDL_PYTHON_ENGINE_ADAPTDL_ENGINE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ADAPTDL_API __attribute__((visibility("default")))

enum { ADAPTDL_OK = 0, ADAPTDL_ERROR = 1, ADAPTDL_EXIT = 2, ADAPTDL_CALLBACK = 3 };

// Grows with each change of this interface that a caller has to follow.
enum { ADAPTDL_INTERFACE = 2 };
ADAPTDL_API int adaptdl_interface(void);

// Of the calling thread's last call that failed.
ADAPTDL_API const char* adaptdl_last_error(void);
ADAPTDL_API int adaptdl_last_exit_code(void);

typedef struct adaptdl_job adaptdl_job;
typedef struct adaptdl_epochs adaptdl_epochs;
typedef struct adaptdl_state adaptdl_state;
typedef struct adaptdl_sums adaptdl_sums;
typedef struct adaptdl_gathered adaptdl_gathered;
typedef struct adaptdl_loader adaptdl_loader;
typedef struct adaptdl_model adaptdl_model;
typedef struct adaptdl_memory adaptdl_memory;

// --- The job: job_calls.cc ---

// As adaptdl::InitProcessGroup(); what is left out ("", 0, negative) comes from the environment. One per process.
ADAPTDL_API int adaptdl_job_open(const char* backend, const char* address, int world_size, int rank,
                                 adaptdl_job** job);
// Meets the other replicas, once. `expected`: states that are registered right after.
ADAPTDL_API int adaptdl_job_meet(adaptdl_job* job, adaptdl_state* const* expected, int64_t count);
// Leaves the group; waits for the others if all epochs are done.
ADAPTDL_API int adaptdl_job_close(adaptdl_job* job);
// In a forked child: gives the signals back, and closes what belongs to the parent. The job must not be used there.
ADAPTDL_API void adaptdl_job_forget_in_child(adaptdl_job* job);

// In a process that reads data for a replica: from now on SIGTERM and SIGINT end it only if the replica sends them.
ADAPTDL_API void adaptdl_ignore_stops_of_others(void);

typedef struct {
  int32_t met;
  int32_t rank;
  int32_t replicas;
  int32_t nodes;
  // Negative: outside epochs.
  int32_t current_epoch;
  int32_t finished_epochs;
  int32_t in_loop;
  // Whether code outside of loops runs that ran before a restart, or on the others before this replica joined.
  int32_t replaying;
  // Whether the step in progress came to nothing, and its loop's body is to run again.
  int32_t is_void;
  // Whether the micro-batch in progress stands in for an empty share, and counts for nothing.
  int32_t stand_in;
  // Whether it has joined a job that trained already.
  int32_t joined;
  int64_t optimizer_steps;
  // Number of the group of replicas, which grows with each change of it.
  int64_t group;
} adaptdl_place;
ADAPTDL_API int adaptdl_job_place(adaptdl_job* job, adaptdl_place* place);

ADAPTDL_API int adaptdl_job_request_stop(adaptdl_job* job);
ADAPTDL_API int adaptdl_job_request_checkpoint(adaptdl_job* job);
// As adaptdl::Job::Report(); once the replicas have met.
ADAPTDL_API int adaptdl_job_report(adaptdl_job* job, const char* name, double value, int64_t step);
ADAPTDL_API int adaptdl_job_synchronize(adaptdl_job* job);
ADAPTDL_API int adaptdl_job_save_all(adaptdl_job* job, int* saved);
// Around what may take long without using this thread: it is no hang.
ADAPTDL_API void adaptdl_job_busy(adaptdl_job* job, int busy);

// What the engine says, for a thread of the caller's: log_lines.cc. open(): it is kept from now on, up to a thousand
// lines; more go to standard error, as all did before. next() waits for a line, which stays until it is called again; 0:
// close() was called, and none is left. forget_in_child(): in a forked child, where nobody fetches them.
typedef struct {
  // 0 information, 1 what whoever runs it is to know, 2 a warning, 3 an error.
  int32_t severity;
  // Negative: not known yet.
  int32_t rank;
  // Of the clock on the wall, since 1970.
  double seconds;
  const char* part;
  const char* text;
} adaptdl_log_line;
ADAPTDL_API void adaptdl_log_open(void);
ADAPTDL_API int adaptdl_log_next(adaptdl_log_line* line);
ADAPTDL_API void adaptdl_log_close(void);
ADAPTDL_API void adaptdl_log_forget_in_child(void);

// The bytes of all replicas, in order of rank. None: the step in progress is void. Collective.
ADAPTDL_API int adaptdl_job_gather(adaptdl_job* job, const char* bytes, int64_t size,
                                   adaptdl_gathered** gathered);
ADAPTDL_API int64_t adaptdl_gathered_count(const adaptdl_gathered* gathered);
ADAPTDL_API const char* adaptdl_gathered_bytes(const adaptdl_gathered* gathered, int64_t index,
                                               int64_t* size);
ADAPTDL_API void adaptdl_gathered_close(adaptdl_gathered* gathered);
// Rank 0's bytes, in place, on all replicas. What fails is not redone. Collective.
ADAPTDL_API int adaptdl_job_broadcast(adaptdl_job* job, void* data, int64_t size);

// The epoch loop. `epoch` negative: all are done.
ADAPTDL_API int adaptdl_epochs_open(adaptdl_job* job, int total, adaptdl_epochs** epochs, int* epoch);
ADAPTDL_API int adaptdl_epochs_next(adaptdl_epochs* epochs, int* epoch);
// Counts an epoch in progress as finished.
ADAPTDL_API int adaptdl_epochs_close(adaptdl_epochs* epochs);

// What the program sums up over replicas, as steps see it: adds everyone's pending values (collective); what was added
// in the step in progress counts, or comes to nothing.
typedef struct {
  int (*merge)(void);
  int (*keep_step)(void);
  int (*drop_step)(void);
  // Whether there is anything that the last two are about: they are not called else. The caller's.
  const int64_t* in_step;
} adaptdl_sums_calls;
ADAPTDL_API int adaptdl_sums_open(adaptdl_job* job, const adaptdl_sums_calls* calls, adaptdl_sums** sums);
ADAPTDL_API int adaptdl_sums_close(adaptdl_sums* sums);

// --- States of checkpoints: state_calls.cc ---

typedef struct adaptdl_bytes adaptdl_bytes;
ADAPTDL_API void adaptdl_bytes_set(adaptdl_bytes* bytes, const char* data, int64_t size);

typedef struct {
  int (*sync)(void);
  int (*save)(adaptdl_bytes* to);
  int (*load)(const char* data, int64_t size);
} adaptdl_bytes_calls;

// Named tensors in main memory, their elements one after the other. `dtype` as safetensors has it ("F32", "I64").
typedef struct adaptdl_tensors adaptdl_tensors;
ADAPTDL_API void adaptdl_tensors_add(adaptdl_tensors* tensors, const char* name, const char* dtype,
                                     int64_t dimensions, const int64_t* shape, void* data);
ADAPTDL_API void adaptdl_tensors_set_text(adaptdl_tensors* tensors, const char* text);
ADAPTDL_API const char* adaptdl_tensors_text(const adaptdl_tensors* tensors);
ADAPTDL_API int64_t adaptdl_tensors_count(const adaptdl_tensors* tensors);
typedef struct {
  const char* name;
  const char* dtype;
  int64_t dimensions;
  const int64_t* shape;
} adaptdl_tensor;
ADAPTDL_API void adaptdl_tensors_get(const adaptdl_tensors* tensors, int64_t index, adaptdl_tensor* tensor);
ADAPTDL_API void adaptdl_tensors_place(adaptdl_tensors* tensors, int64_t index, void* data);

// list(): adds all tensors, and a text that goes with them; they stay where they are until the next call. open(): gets
// them as they were saved, and says where each one's elements belong; commit(): all of them are there.
typedef struct {
  int (*list)(adaptdl_tensors* tensors);
  int (*open)(adaptdl_tensors* tensors);
  int (*commit)(void);
} adaptdl_tensors_calls;

ADAPTDL_API int adaptdl_state_open_bytes(adaptdl_job* job, const char* name, int changes_with_steps,
                                         const adaptdl_bytes_calls* calls, adaptdl_state** state);
ADAPTDL_API int adaptdl_state_open_tensors(adaptdl_job* job, const char* name,
                                           const adaptdl_tensors_calls* calls, adaptdl_state** state);
ADAPTDL_API int adaptdl_state_register(adaptdl_state* state, int* loaded);
ADAPTDL_API int adaptdl_state_close(adaptdl_state* state);

// --- Data loaders: loader_calls.cc; stream_calls.cc ---

typedef struct {
  int64_t size;
  int64_t batch_size;
  int64_t base_batch_size;
  int64_t max_local_batch_size;
  uint64_t seed;
  double band;
  int32_t shuffle;
  int32_t drop_last;
} adaptdl_loader_options;

// A micro-batch of a loop. `more` 0: the loop has ended.
typedef struct {
  int32_t more;
  int32_t is_optimizer_step;
  int64_t count;
  const int64_t* indices;
  // How many of them count.
  int64_t weight;
  int64_t micro_batch;
  int64_t micro_batches;
  // Of the whole step; most of one replica at once.
  int64_t batch_size;
  int64_t local_batch_size;
  int64_t position;
  int64_t pass;
  int64_t replicas;
} adaptdl_batch;

ADAPTDL_API int adaptdl_loader_open(adaptdl_job* job, const adaptdl_loader_options* options,
                                    adaptdl_loader** loader);

// A sample of a shard, counted up to and with it by `position`; the caller numbers all samples that it reads, in order.
// `number` negative: there is none, the shard has ended at `position`.
typedef struct {
  int64_t shard;
  int64_t position;
  int64_t number;
} adaptdl_stream_sample;
// lease(): the shard, without its first `skip` samples, is to be read. forget(): all shards that were leased are void.
// take(): the next sample of any of those that have not ended; each one's are taken in order. first(): the first sample
// of a shard, apart from all others, to stand in for an empty share; negative: it has none.
typedef struct {
  int (*lease)(int64_t shard, int64_t skip);
  int (*forget)(void);
  int (*take)(adaptdl_stream_sample* sample);
  int (*first)(int64_t shard, int64_t* number);
} adaptdl_stream_calls;
// Streams, options->size of them. `base_batch_size` and `band` mean nothing here, adaptdl_loader_autoscale() and
// adaptdl_loader_peek() are not for them, and a batch's indices are numbers of samples. Once a micro-batch that counts
// begins, samples with lower numbers than its first one are not asked for any more.
ADAPTDL_API int adaptdl_stream_open(adaptdl_job* job, const adaptdl_loader_options* options,
                                    int64_t shards_at_once, const adaptdl_stream_calls* calls,
                                    adaptdl_loader** loader);

ADAPTDL_API int adaptdl_loader_autoscale(adaptdl_loader* loader, int64_t max_batch_size, int64_t min_local,
                                         int64_t max_local, int accumulation);
// `begun` 0: the loop was finished before a restart.
ADAPTDL_API int adaptdl_loader_begin(adaptdl_loader* loader, int* begun);
ADAPTDL_API int adaptdl_loader_next(adaptdl_loader* loader, adaptdl_batch* batch);
// The micro-batch's samples have been read: what follows is computation. Not called: all of it is.
ADAPTDL_API void adaptdl_loader_read(adaptdl_loader* loader);
// The indices of the micro-batch that is `ahead` (from 1) after the one in progress, as it is expected. `count` 0: none.
ADAPTDL_API int adaptdl_loader_peek(adaptdl_loader* loader, int64_t ahead, const int64_t** indices,
                                    int64_t* count);
// Whether no micro-batch comes after the one in progress, as it looks now. Collective.
ADAPTDL_API int adaptdl_loader_is_last(adaptdl_loader* loader, int* last);
// As they would be in the next step.
ADAPTDL_API int adaptdl_loader_sizes(adaptdl_loader* loader, adaptdl_batch* batch);
ADAPTDL_API int adaptdl_loader_end(adaptdl_loader* loader);
ADAPTDL_API int adaptdl_loader_close(adaptdl_loader* loader);

// What rank `rank` of `replicas` reads of an epoch from sample `index` on; `indices` has room for `room` of them.
ADAPTDL_API int64_t adaptdl_sampler_indices(int64_t size, int shuffle, uint64_t seed, int64_t epoch,
                                            int64_t index, int rank, int replicas, int64_t* indices,
                                            int64_t room);

// --- Models: model_calls.cc ---

// Types of numbers: 0 float32, 1 float64, 4 float16, 5 bfloat16.
typedef struct {
  int64_t count;
  int32_t type;
  int32_t group;
} adaptdl_parameter;

// Of Adam, for one parameter. exp_avg_sq null: none that count.
typedef struct {
  void* exp_avg_sq;
  int64_t step;
  double beta2;
  double epsilon;
  int32_t type;
} adaptdl_moments;

// What is to be done with a parameter's gradient after a call.
enum { ADAPTDL_KEEP = 0, ADAPTDL_DROP = 1, ADAPTDL_USE_SLOT = 2 };
// In place of an address: a gradient of a kind that cannot be averaged.
enum { ADAPTDL_SPARSE = 1 };

// Memory that both sides read and write, the caller's, in main memory. By parameter, or by buffer. What it gives addresses
// of lies on the model's device.
typedef struct {
  int64_t num_parameters;
  int64_t num_buffers;
  int32_t num_groups;
  const adaptdl_parameter* parameters;
  // Numbers and types of the buffers.
  const int64_t* buffer_counts;
  const int32_t* buffer_types;
  // Where gradients and buffers are now. The gradient's numbers are in the order in which the parameter's lie in
  // memory. 0: there is none.
  uint64_t* gradients;
  uint64_t* buffers;
  // Whether it requires a gradient.
  uint8_t* trained;
  // From the engine: see above; `changed` says whether there is anything. Where a gradient may lie (slots).
  uint8_t* changes;
  int64_t* changed;
  uint64_t* slots;
  adaptdl_moments* moments;
  // What the loss of the next pass is multiplied by.
  double* loss_scale;
  // From the engine, after a step: whether the next one may look at gradients, if it is one pass of one replica.
  int64_t* may_look;
  // What the optimiser's step of the micro-batch in progress needs: see below.
  int64_t* step;
  // Of a GPU, the stream on which gradients come about and are used: as it is when a function is called. The caller's.
  const uint64_t* stream;
} adaptdl_shared;

// Of adaptdl_shared::step. Where a step is plain, nothing depends on the engine: the caller may take it by itself, after the
// backward pass and with the learning rates as they are, and sets that it was taken. The engine learns of it in the next
// call on the job, before anything else.
enum { ADAPTDL_STEP_IS_ENGINES = 0, ADAPTDL_STEP_IS_PLAIN = 1, ADAPTDL_STEP_TAKEN = 2 };

typedef struct {
  // Takes a step with the learning rate of each group multiplied.
  int (*optimizer_step)(const double* factors, int64_t groups);
  // Fills adaptdl_shared::moments.
  int (*take_moments)(void);
  // Makes a gradient for the parameter, and says where, in adaptdl_shared::gradients.
  int (*make_gradient)(int64_t parameter);
  // Changes with the gradient.
  int (*gradient_version)(int64_t parameter, uint64_t* version);
  // Holds on to all gradients there are, under a number; their versions as they are now; lets go.
  int (*hold_gradients)(int64_t number);
  int (*held_versions)(int64_t number, uint64_t* versions);
  int (*release_gradients)(int64_t number);
  // A scaling rule of the program's own. Null: there is none.
  int (*factors)(double scale, double progress, int64_t init_batch_size, const double* sqr, const double* var,
                 double* factors, int64_t groups);
} adaptdl_model_calls;

enum {
  ADAPTDL_RULE_OWN = 0,
  ADAPTDL_RULE_ADASCALE = 1,
  ADAPTDL_RULE_ADAMSCALE = 2,
  ADAPTDL_RULE_LINEAR = 3,
  ADAPTDL_RULE_SQRT = 4,
  ADAPTDL_RULE_LEGW = 5
};

typedef struct {
  const char* name;
  int64_t bucket_bytes;
  int32_t overlap;
  int32_t statistics_period;
  int32_t is_adam;
  int32_t scales_loss;
  int32_t rule;
  // AdamScale: power. LEGW: epochs of warm-up at the initial batch size, samples in an epoch.
  double rule_number;
  int64_t rule_samples;
  int64_t num_optimizer_parameters;
  // The GPU that all addresses are of, as CUDA counts. Negative: main memory.
  int32_t device;
} adaptdl_model_options;

// Best before the replicas meet: memory that exchanges need is got while the others of a job that this one joins go on.
ADAPTDL_API int adaptdl_model_make(adaptdl_job* job, const adaptdl_shared* shared,
                                   const adaptdl_model_calls* calls, const adaptdl_model_options* options,
                                   adaptdl_model** model);
// Once they have met, and what the model is restored from is registered: from now on its steps are the job's.
ADAPTDL_API int adaptdl_model_open(adaptdl_model* model);
ADAPTDL_API int adaptdl_model_close(adaptdl_model* model);

// The backward pass. begin(): before the first gradient; `looks` is what the pass wants to know. ready(): the
// parameter's gradient is at `gradient`. all_ready(): they are where adaptdl_shared::gradients says. end(): all are
// there.
enum { ADAPTDL_LOOKS_AT_PASS = 1, ADAPTDL_LOOKS_AT_GRADIENTS = 2 };
ADAPTDL_API int adaptdl_model_begin(adaptdl_model* model, int* looks);
// The gradient of this pass alone. `counts` 0: zeros are to be added in its place.
ADAPTDL_API int adaptdl_model_pass_gradient(adaptdl_model* model, int64_t parameter, uint64_t gradient,
                                            int* counts);
ADAPTDL_API int adaptdl_model_ready(adaptdl_model* model, int64_t parameter, uint64_t gradient);
ADAPTDL_API int adaptdl_model_all_ready(adaptdl_model* model);
ADAPTDL_API int adaptdl_model_end(adaptdl_model* model);
// A pass that was begun is none: nothing of it has a gradient.
ADAPTDL_API int adaptdl_model_abandon(adaptdl_model* model);

// The optimiser's step, and its zero_grad(). `parameters`: how many the optimiser has. `pass`: whether end() comes first,
// or begin() and end(); where such a pass turns out to look at gradients the step is not taken, `looks` is what begin()
// says, and the caller goes on from there. Collective.
enum { ADAPTDL_PASS_IS_OVER = 0, ADAPTDL_PASS_ENDS = 1, ADAPTDL_PASS_BEGINS = 2 };
ADAPTDL_API int adaptdl_model_step(adaptdl_model* model, int64_t parameters, int pass, int* looks);
ADAPTDL_API int adaptdl_model_leave_out(adaptdl_model* model);
ADAPTDL_API int adaptdl_model_zero_grad(adaptdl_model* model);
ADAPTDL_API int adaptdl_model_accumulating(const adaptdl_model* model);

typedef struct {
  double gain;
  double learning_rate_factor;
  double sqr_avg;
  double var_avg;
  double progress;
} adaptdl_statistics;
ADAPTDL_API int adaptdl_model_statistics(adaptdl_model* model, adaptdl_statistics* statistics);
// One number for each group.
ADAPTDL_API int adaptdl_model_raw_statistics(adaptdl_model* model, double* sqr, double* var);
ADAPTDL_API double adaptdl_model_gain_at(const adaptdl_model* model, double scale);

// Keeps the memory of the parameter's slot until it is closed, even if the engine has no use for it any more.
ADAPTDL_API adaptdl_memory* adaptdl_memory_of_slot(const adaptdl_model* model, int64_t parameter);
ADAPTDL_API void adaptdl_memory_close(adaptdl_memory* memory);

// Factors of a rule (ADAPTDL_RULE_*, not a program's own) outside of training, as tests and plans want them.
ADAPTDL_API int adaptdl_rule_factors(int rule, double rule_number, int64_t rule_samples, double scale,
                                     double progress, int64_t init_batch_size, const double* sqr,
                                     const double* var, double* factors, int64_t groups);

#ifdef __cplusplus
}
#endif

#endif  // ADAPTDL_PYTHON_ENGINE_ADAPTDL_ENGINE_H_
