// The rules of the virtual environment that a job may ask for (v1::PythonEnvironment). Errors are
// INVALID_ARGUMENT and name the field, its value and the remedy. Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_JOBSPEC_PYTHON_H_
#define ADAPTDL_LIBS_JOBSPEC_PYTHON_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/job.pb.h"

namespace adaptdl::jobspec {

// Errors name the field "spec.template.python.<...>".
absl::Status CheckPython(const v1::PythonEnvironment& python);

// The text of a requirements file: its size, and that no line names a file of the machine that it comes from,
// which the nodes don't have. `field` stands before the error.
absl::Status CheckRequirements(absl::string_view field, absl::string_view text);

// Whether pip has anything to do for this text: not for comments and empty lines alone.
bool HasRequirements(absl::string_view text);

}  // namespace adaptdl::jobspec

#endif  // ADAPTDL_LIBS_JOBSPEC_PYTHON_H_
