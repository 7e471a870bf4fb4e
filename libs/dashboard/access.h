// Who may talk to a dashboard on loopback: the browser that was given its URL. The URL holds a key that can be used once, for a
// cookie; a page that the browser shows of another site has neither, and can't have them by a name that it points at this
// machine, as requests must name the host as we do. What changes something also carries a token that only our own page can
// read.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_DASHBOARD_ACCESS_H_
#define ADAPTDL_LIBS_DASHBOARD_ACCESS_H_

#include <string>

#include "libs/base/mutex.h"
#include "libs/httpd/http_server.h"

namespace adaptdl::dashboard {

class Access {
 public:
  Access();

  // What the URL's query says: "key=...".
  std::string Query() const { return "key=" + key_; }
  // Header field X-Adaptdl-Token of what changes something.
  const std::string& token() const { return token_; }

  // Whether the request names a host of this machine, and the port that it has come to.
  static bool NamesLoopback(const httpd::HttpRequest& request, int port);
  // Takes the key of a request, once. Empty: it is not the key, or was taken before. Else the value of Set-Cookie.
  std::string Exchange(const httpd::HttpRequest& request);
  // Whether it has the cookie.
  bool Admits(const httpd::HttpRequest& request) const;
  // Whether it has the token as well, and comes from no other site.
  bool MayChange(const httpd::HttpRequest& request) const;

 private:
  const std::string key_;
  const std::string cookie_;
  const std::string token_;
  Mutex mutex_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace adaptdl::dashboard

#endif  // ADAPTDL_LIBS_DASHBOARD_ACCESS_H_
