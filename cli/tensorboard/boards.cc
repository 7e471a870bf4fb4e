#include "cli/tensorboard/boards.h"

#include <map>
#include <utility>

#include "cli/client.h"

namespace adaptdl::cli {

std::vector<Board> BoardsOf(const v1::ListJobsResponse& jobs) {
  std::map<std::string, Board> by_name;
  for (const v1::Job& job : jobs.jobs()) {
    const std::string& name = job.spec().template_().tensorboard();
    if (name.empty()) continue;
    Board& board = by_name[name];
    board.name = name;
    board.jobs.push_back(job.name());
    if (!IsFinished(job.status().phase())) ++board.unfinished;
  }
  std::vector<Board> boards;
  for (auto& [name, board] : by_name) boards.push_back(std::move(board));
  return boards;
}

}  // namespace adaptdl::cli
