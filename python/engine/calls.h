// What all calls of the C interface have in common: exceptions become statuses, callbacks that fail become exceptions.
//
// Thread-safety: the training thread; Note*() of any.

#ifndef ADAPTDL_PYTHON_ENGINE_CALLS_H_
#define ADAPTDL_PYTHON_ENGINE_CALLS_H_

#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "adaptdl/job.h"
#include "python/engine/adaptdl_engine.h"
#include "python/engine/interpreter_host.h"

struct adaptdl_job {
  std::shared_ptr<adaptdl::python::InterpreterHost> host;
  std::unique_ptr<adaptdl::Job> job;
  // Whether the replicas have met, and the thread on which they did: the one that trains.
  bool met = false;
  std::thread::id training_thread = {};
  // The code that this process has been told to end with. Negative: none yet.
  int exit_code = -1;
  // Those that are open, not owned.
  std::vector<adaptdl_model*> models = {};
};

namespace adaptdl::python {

// A callback did not return 0; the caller knows why.
struct CallbackFailed {};

// Kept for adaptdl_last_error() and adaptdl_last_exit_code().
int NoteError(const std::string& text);
int NoteExit(int code);

// Completes steps that the caller has taken by itself (ADAPTDL_STEP_TAKEN): model_calls.cc. `keeps_plain`: the call that follows
// changes nothing about those that are still to be taken.
void CompleteTakenSteps(adaptdl_job* job, bool keeps_plain);
// Says of the step of the micro-batch that has just begun whether it is plain: model_calls.cc.
void ForeseeSteps(adaptdl_job* job);

// Runs `body` as a call on the job, from any thread.
template <typename Body>
int CallFromAnyThread(adaptdl_job* job, Body&& body) {
  if (job->exit_code >= 0) return NoteExit(job->exit_code);
  try {
    std::forward<Body>(body)();
    return ADAPTDL_OK;
  } catch (const ProcessEnds& end) {
    // The program's own errors are its to handle: nothing was changed by what was refused.
    if (end.code == 1) return NoteError(job->host->TakeReason());
    job->host->SayReason(end.code);
    job->exit_code = end.code;
    return NoteExit(end.code);
  } catch (const CallbackFailed&) {
    return ADAPTDL_CALLBACK;
  } catch (const std::exception& error) {
    return NoteError(error.what());
  }
}

// Runs `body` as a call of the training thread on the job.
template <typename Body>
int Call(adaptdl_job* job, Body&& body, bool keeps_plain = false) {
  const InterpreterHost::NativeScope native(job->host.get());
  return CallFromAnyThread(job, [&] {
    CompleteTakenSteps(job, keeps_plain);
    std::forward<Body>(body)();
  });
}

// Runs a callback, which may raise and wait for locks of the interpreter.
template <typename Function, typename... Arguments>
void CallBack(adaptdl_job* job, Function* function, Arguments... arguments) {
  const InterpreterHost::InterpreterScope interpreter(job->host.get());
  if (function(arguments...) != 0) throw CallbackFailed();
}

}  // namespace adaptdl::python

#endif  // ADAPTDL_PYTHON_ENGINE_CALLS_H_
