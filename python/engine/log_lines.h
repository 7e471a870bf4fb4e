// What the engine says, kept for a thread of the interpreter's to fetch: whoever says it may be any thread, and
// never waits for the interpreter.
//
// Thread-safe.

#ifndef ADAPTDL_PYTHON_ENGINE_LOG_LINES_H_
#define ADAPTDL_PYTHON_ENGINE_LOG_LINES_H_

namespace adaptdl::python {

// What was not fetched yet, before the process ends without the interpreter.
void SayLinesOnStandardError();

}  // namespace adaptdl::python

#endif  // ADAPTDL_PYTHON_ENGINE_LOG_LINES_H_
