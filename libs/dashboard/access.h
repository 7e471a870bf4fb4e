// Who may talk to a dashboard on loopback: the browser that was given its URL. The URL holds a key that can be used once, for a
// cookie; a page that the browser shows of another site has neither, and can't have them by a name that it points at this
// machine, as requests must name the host as we do. What changes something also carries a token that only our own page can
// read.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_DASHBOARD_ACCESS_H_
#define ADAPTDL_LIBS_DASHBOARD_ACCESS_H_

#include <atomic>
#include <string>
#include <variant>

#include "libs/base/mutex.h"
#include "libs/dashboard/doorkeeper.h"
#include "libs/httpd/http_server.h"

namespace adaptdl::dashboard {

class Access final : public Doorkeeper {
 public:
  Access();

  // Where the server listens. Before that nobody comes in.
  void set_port(int port) { port_ = port; }
  // What the URL's query says: "key=...".
  std::string Query() const { return "key=" + key_; }
  // What the page of the browser that has come in sends along.
  const std::string& token() const { return token_; }

  std::variant<Guest, Proof, httpd::HttpResponse> Meet(const httpd::HttpRequest& request) override;
  // There are no proofs.
  httpd::HttpResponse Judge(const Proof& proof, const absl::Status& status) override;
  void Forget(const Guest& /*guest*/) override {}
  bool Knows(const Guest& /*guest*/) const override { return true; }
  bool shows_files() const override { return false; }

 private:
  // Whether the request names a host of this machine, and the port that it has come to.
  bool NamesLoopback(const httpd::HttpRequest& request) const;
  // Takes the key of a request, once. Empty: it is not the key, or was taken before. Else the value of Set-Cookie.
  std::string Exchange(const httpd::HttpRequest& request);

  const std::string key_;
  const std::string cookie_;
  const std::string token_;
  std::atomic<int> port_ = 0;
  Mutex mutex_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace adaptdl::dashboard

#endif  // ADAPTDL_LIBS_DASHBOARD_ACCESS_H_
