// Where this program lies: its parts lie beside it.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_BASE_PROGRAM_FOLDER_H_
#define ADAPTDL_LIBS_BASE_PROGRAM_FOLDER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl {

// The folder of this program. Empty: the system does not say.
std::string ProgramFolder();

// The folder of the shared library that this code is part of, or of the program. Empty: the system does not say.
std::string ModuleFolder();

// The path of the file `name` in the program's folder; `name` alone if the system does not say.
std::string BesideProgram(absl::string_view name);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_PROGRAM_FOLDER_H_
