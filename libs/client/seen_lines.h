// Leaves out the lines that an earlier stream of the same request has given. Not thread-safe.

#ifndef ADAPTDL_LIBS_CLIENT_SEEN_LINES_H_
#define ADAPTDL_LIBS_CLIENT_SEEN_LINES_H_

#include <map>
#include <string>

#include "absl/time/time.h"
#include "adaptdl/v1/job_service.pb.h"

namespace adaptdl::client {

class SeenLines {
 public:
  // Begins to read a stream from its start again.
  void Restart();
  // Whether the stream's next line was not given before.
  bool IsNew(const v1::LogLine& line);

 private:
  // Where a replica's output was left: the time of its last line, and how many lines bore it.
  struct Position {
    absl::Time time = absl::InfinitePast();
    int at_time = 0;
    int to_skip = 0;
  };
  std::map<std::string, Position> positions_;
};

}  // namespace adaptdl::client

#endif  // ADAPTDL_LIBS_CLIENT_SEEN_LINES_H_
