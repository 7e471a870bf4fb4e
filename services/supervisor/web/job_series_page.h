// GET /metrics/jobs[?namespace=NAME]: the series of jobs (job_series.h), for who proves by a bearer token that it may list jobs.
// Without a namespace: of the whole cluster, or of the namespaces that the token is for. 401: no token, or a wrong one; 403: it
// may not.
//
// Thread-safe. What is written may take milliseconds, and a cluster may be asked about the token: that happens on a lane.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_WEB_JOB_SERIES_PAGE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_WEB_JOB_SERIES_PAGE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "libs/base/clock.h"
#include "libs/httpd/http_server.h"
#include "libs/service/security/guard.h"
#include "services/supervisor/calls/admission.h"
#include "services/supervisor/calls/executor.h"
#include "services/supervisor/costs/cost_book.h"
#include "services/supervisor/state/read_index.h"

namespace adaptdl::supervisor {

class JobSeriesPage {
 public:
  // All outlive it, and what it has posted to `readers`. `most`: jobs on one page.
  JobSeriesPage(const ReadIndex* index, const CostBook* costs, const Clock* clock,
                const security::Guard* guard, Admission* admission, Executor* readers, size_t most)
      : index_(index),
        costs_(costs),
        clock_(clock),
        guard_(guard),
        admission_(admission),
        readers_(readers),
        most_(most) {}

  void Handle(const httpd::HttpRequest& request, const std::shared_ptr<httpd::HttpExchange>& exchange) const;

 private:
  httpd::HttpResponse Answer(const security::Credentials& credentials, const std::string& name_space) const;

  const ReadIndex* const index_;
  const CostBook* const costs_;
  const Clock* const clock_;
  const security::Guard* const guard_;
  Admission* const admission_;
  Executor* const readers_;
  const size_t most_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_WEB_JOB_SERIES_PAGE_H_
