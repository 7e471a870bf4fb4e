// A data loader's loop as the C interface sees it: over indices (loader_calls.cc), or over streams (stream_calls.cc).
//
// Thread-safety: the training thread only. The job is not owned, and must outlive it.

#ifndef ADAPTDL_PYTHON_ENGINE_LOADER_H_
#define ADAPTDL_PYTHON_ENGINE_LOADER_H_

#include "python/engine/adaptdl_engine.h"

struct adaptdl_loader {
  explicit adaptdl_loader(adaptdl_job* job) : job(job) {}
  virtual ~adaptdl_loader() = default;
  adaptdl_loader(const adaptdl_loader&) = delete;
  adaptdl_loader& operator=(const adaptdl_loader&) = delete;

  virtual bool Begin() = 0;
  // Fills `batch`, which is zero, if there is a micro-batch.
  virtual void Next(adaptdl_batch* batch) = 0;
  // Fills in the sizes.
  virtual void Describe(adaptdl_batch* batch) const = 0;
  virtual bool IsLast() = 0;
  virtual void End() = 0;

  adaptdl_job* const job;
};

#endif  // ADAPTDL_PYTHON_ENGINE_LOADER_H_
