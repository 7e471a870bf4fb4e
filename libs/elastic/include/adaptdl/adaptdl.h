// The elastic training library: everything that a training program needs. See docs/training-library.md.

#ifndef ADAPTDL_ADAPTDL_H_
#define ADAPTDL_ADAPTDL_H_

#include "adaptdl/accumulator.h"
#include "adaptdl/autocast.h"
#include "adaptdl/batch_device.h"
#include "adaptdl/bptt.h"
#include "adaptdl/data_loader.h"
#include "adaptdl/data_parallel.h"
#include "adaptdl/env.h"
#include "adaptdl/epochs.h"
#include "adaptdl/grad_scaler.h"
#include "adaptdl/job.h"
#include "adaptdl/scaling_rule.h"
#include "adaptdl/stream_loader.h"
#include "adaptdl/tensorboard.h"
#include "adaptdl/torch_data_loader.h"
#include "adaptdl/torch_lr_scheduler.h"
#include "adaptdl/trial.h"
#include "adaptdl/weights.h"

#endif  // ADAPTDL_ADAPTDL_H_
