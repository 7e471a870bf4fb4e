// What AdaptDL's own Python package (0.2) expects of a supervisor, over HTTP. A replica has a URL for itself,
// which holds a secret of its group; where replicas have addresses of their own (ReplicaHosts), all have the same, without
// /<secret>/<rank>, and a replica is known by where its request comes from:
//
//   GET /healthz                                                       200
//   GET /<secret>/<rank>/discover/<namespace>/<name>/<restarts>        hosts of the group's members, by rank,
//   as a
//       ?timeout=<seconds>, default 30                                 JSON array, as soon as all have asked;
//       408 when
//                                                                      the time is over: ask again
//   PUT /<secret>/<rank>/hints/<namespace>/<name>                      200: stored; 400 with a reason: not
//   stored
//
// Everything else is 404: paths, methods, jobs, groups that are over, wrong secrets. A waiting replica costs
// a connection, no thread.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_HTTP_ADAPTDL_API_H_
#define ADAPTDL_SERVICES_SUPERVISOR_HTTP_ADAPTDL_API_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/base/mutex.h"
#include "libs/httpd/http_server.h"
#include "services/supervisor/replicas/membership.h"
#include "services/supervisor/replicas/training_reports.h"
#include "services/supervisor/state/change_hub.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

class AdaptdlApi {
 public:
  // All outlive it.
  AdaptdlApi(Membership* membership, TrainingReports* reports, const Core* core, GroupCommit* durability,
             ChangeHub* hub)
      : membership_(membership), reports_(reports), core_(core), durability_(durability), hub_(hub) {}

  // Answers now or later.
  void Handle(const httpd::HttpRequest& request, const std::shared_ptr<httpd::HttpExchange>& exchange);

  // Answers those whose time is over.
  void Step();

 private:
  class Rendezvous;

  void Discover(const httpd::HttpRequest& request, const UrlIdentity& identity, absl::string_view restarts,
                const std::shared_ptr<httpd::HttpExchange>& exchange);
  void TakeHints(const httpd::HttpRequest& request, const UrlIdentity& identity,
                 const std::shared_ptr<httpd::HttpExchange>& exchange);
  // Makes the exchange wait until it is asked again.
  void AnswerLater(const std::shared_ptr<httpd::HttpExchange>& exchange);
  // Makes the exchange wait with the others of its group.
  std::shared_ptr<Rendezvous> Enter(const ReplicaContext& replica,
                                    const std::shared_ptr<httpd::HttpExchange>& exchange,
                                    absl::Time deadline);

  Membership* const membership_;
  TrainingReports* const reports_;
  const Core* const core_;
  GroupCommit* const durability_;
  ChangeHub* const hub_;
  Mutex mutex_;
  // Of replicas whose addresses are not known yet, with when they are to ask again.
  std::vector<std::pair<std::shared_ptr<httpd::HttpExchange>, absl::Time>> early_ ABSL_GUARDED_BY(mutex_);
  // Where replicas wait, by job and group.
  std::map<std::pair<std::string, int64_t>, std::shared_ptr<Rendezvous>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_HTTP_ADAPTDL_API_H_
