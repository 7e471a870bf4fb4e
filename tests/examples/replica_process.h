// The example programs as processes.
//
// Thread-safety: one thread at a time per object.

#ifndef ADAPTDL_TESTS_EXAMPLES_REPLICA_PROCESS_H_
#define ADAPTDL_TESTS_EXAMPLES_REPLICA_PROCESS_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace examples {

using Environment = std::map<std::string, std::string>;

class Process {
 public:
  // `program`: a name in the build's folder of programs. With one thread, its output is kept.
  Process(const std::string& program, const std::vector<std::string>& arguments,
          const Environment& environment);
  // Kills what still runs.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Reads until `text` is there. False: the output ended before.
  bool WaitFor(const std::string& text);

  void Signal(int signal);

  // Exit code; negative: minus the signal.
  int Wait();

  const std::string& output() const { return output_; }

  // The numbers that follow `name` in the output, in their order.
  std::vector<double> NumbersAfter(const std::string& name) const;

 private:
  bool ReadMore();

  pid_t pid_ = -1;
  int output_fd_ = -1;
  std::string output_;
};

// A group of replicas of an elastic program, which shares its checkpoints, and the folder for results, in
// `folder` with the groups before.
std::vector<std::unique_ptr<Process>> StartGroup(const std::string& program, int replicas,
                                                 const std::vector<std::string>& arguments,
                                                 const std::string& folder);

}  // namespace examples

#endif  // ADAPTDL_TESTS_EXAMPLES_REPLICA_PROCESS_H_
