// A host for tests of single parts: the test moves its clock, and an exit is thrown.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_TEST_HOST_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_TEST_HOST_H_

#include <functional>

#include "libs/elastic/host/host.h"

namespace adaptdl::elastic {

struct HostExit {
  int code;
};

class TestHost final : public Host {
 public:
  // Seconds.
  double now = 100;

  double Seconds() override { return now; }
  double WallSeconds() override { return 1e9 + now; }
  std::function<double()> clock() {
    return [this] { return now; };
  }

 private:
  void End(int code) override { throw HostExit{code}; }
};

// The code that `body` ends the process with. -1: it does not.
inline int ExitCodeOf(const std::function<void()>& body) {
  try {
    body();
    return -1;
  } catch (const HostExit& exit) {
    return exit.code;
  }
}

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_TEST_HOST_H_
