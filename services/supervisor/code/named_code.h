// Which archives the jobs of a cluster name. Plain functions; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CODE_NAMED_CODE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CODE_NAMED_CODE_H_

#include <set>

#include "services/supervisor/code/code_store.h"
#include "services/supervisor/state/read_index.h"

namespace adaptdl::supervisor {

struct NamedCode {
  std::set<CodeKey> by_any;
  // By jobs that have not finished.
  std::set<CodeKey> by_unfinished;
};

NamedCode FindNamedCode(const ReadIndex& index);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CODE_NAMED_CODE_H_
