// The states behind adaptdl_state.
//
// Thread-safety: the training thread.

#ifndef ADAPTDL_PYTHON_ENGINE_STATE_CALLS_H_
#define ADAPTDL_PYTHON_ENGINE_STATE_CALLS_H_

#include "adaptdl/job.h"
#include "python/engine/adaptdl_engine.h"

namespace adaptdl::python {

CheckpointState* StateOf(adaptdl_state* state);

}  // namespace adaptdl::python

#endif  // ADAPTDL_PYTHON_ENGINE_STATE_CALLS_H_
