#include "services/supervisor/code/named_code.h"

#include <memory>
#include <vector>

#include "libs/jobs/job.h"
#include "services/supervisor/calls/pages.h"

namespace adaptdl::supervisor {

NamedCode FindNamedCode(const ReadIndex& index) {
  NamedCode named;
  for (int64_t after = 0;;) {
    const std::vector<std::shared_ptr<const JobEntry>> batch = index.JobsAfter("*", after, kReadBatch);
    for (const std::shared_ptr<const JobEntry>& entry : batch) {
      after = entry->record.sequence;
      const v1::Job& job = *entry->record.job;
      if (!job.spec().template_().has_code()) continue;
      const CodeKey key = {job.namespace_(), job.spec().template_().code().digest()};
      named.by_any.insert(key);
      if (!jobs::IsTerminal(entry->record.state.phase)) named.by_unfinished.insert(key);
    }
    if (batch.size() < kReadBatch) return named;
  }
}

}  // namespace adaptdl::supervisor
