#include "python/engine/calls.h"

#include <string>

namespace adaptdl::python {
namespace {

struct LastFailure {
  std::string text;
  int exit_code = 0;
};

LastFailure& Last() {
  static thread_local LastFailure last;
  return last;
}

}  // namespace

int NoteError(const std::string& text) {
  Last().text = text;
  return ADAPTDL_ERROR;
}

int NoteExit(int code) {
  Last().exit_code = code;
  return ADAPTDL_EXIT;
}

}  // namespace adaptdl::python

int adaptdl_interface(void) { return ADAPTDL_INTERFACE; }
const char* adaptdl_last_error(void) { return adaptdl::python::Last().text.c_str(); }
int adaptdl_last_exit_code(void) { return adaptdl::python::Last().exit_code; }
