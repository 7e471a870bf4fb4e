// Who comes in to a dashboard, and with whose rights: decided for each request, before anything else is.

#ifndef ADAPTDL_LIBS_DASHBOARD_DOORKEEPER_H_
#define ADAPTDL_LIBS_DASHBOARD_DOORKEEPER_H_

#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/httpd/http_server.h"

namespace adaptdl::dashboard {

// Somebody who has come in.
struct Guest {
  // Calls are made with it, as "authorization: Bearer ..."; also tells guests from each other. Empty: they are made with what
  // the channel has.
  std::string bearer = {};
  // What the guest's own page sends along with what changes something, in X-Adaptdl-Token: other sites' pages can't read it.
  std::string token = {};
  // Whether there is a way out, by POST /logout.
  bool leaves = false;
  // Of the doorkeeper's own.
  std::string session = {};
};

// Of somebody who wants to come in: the supervisor is to say whether this is a token.
struct Proof {
  std::string bearer = {};
  // The IP address that it comes from.
  std::string peer = {};
};

// Thread-safe, as implementations are. None waits.
class Doorkeeper {
 public:
  virtual ~Doorkeeper() = default;

  // A response: what others than guests are answered, and guests who leave.
  virtual std::variant<Guest, Proof, httpd::HttpResponse> Meet(const httpd::HttpRequest& request) = 0;
  // What is answered to who came with `proof`, of which the supervisor has said `status`.
  virtual httpd::HttpResponse Judge(const Proof& proof, const absl::Status& status) = 0;
  // The supervisor does not know the guest, or not any more.
  virtual void Forget(const Guest& guest) = 0;
  // Whether the guest is still in: what streams to it ends when it is not.
  virtual bool Knows(const Guest& guest) const = 0;
  // Whether everybody may have the static files, in which there is nothing of a cluster.
  virtual bool shows_files() const = 0;
};

// Whether a request that changes something was made by the guest's own page.
bool IsOfOwnPage(const httpd::HttpRequest& request, const Guest& guest);
// Whether the browser, if it says where a request was made, says that it was made by one of our pages.
bool IsSameOrigin(const httpd::HttpRequest& request);

// "": there is none.
std::string HeaderOf(const httpd::HttpRequest& request, const std::string& name);
std::string CookieOf(const httpd::HttpRequest& request, absl::string_view name);
// Takes the same time wherever they differ.
bool Same(absl::string_view a, absl::string_view b);
// A page of a sentence.
httpd::HttpResponse PageOf(int status, absl::string_view text);

}  // namespace adaptdl::dashboard

#endif  // ADAPTDL_LIBS_DASHBOARD_DOORKEEPER_H_
