#include "services/supervisor/replicas/group_views.h"

#include <memory>
#include <string>

#include "services/supervisor/jobs/group.h"

namespace adaptdl::supervisor {
namespace {

constexpr size_t kMostViews = 64;

std::shared_ptr<const GroupView> MakeView(const Tables& tables, const std::shared_ptr<const JobEntry>& job) {
  auto view = std::make_shared<GroupView>();
  view->job = job;
  for (size_t i = 0; i < job->replicas.size(); ++i) {
    view->places[job->replicas[i]->replica.replica_id()] = static_cast<int>(i);
  }
  const int64_t group = job->record.state.group;
  const GroupMembers members = MembersOf(job->replicas, group);
  view->members = DescribeGroup(members, group, -1);
  if (view->members.has_formed()) {
    FillFormed(tables, *job, members, group, "", view->members.mutable_formed());
  }
  view->brief = view->members;
  if (view->brief.has_formed()) view->brief.mutable_formed()->clear_members();
  return view;
}

}  // namespace

std::shared_ptr<const GroupView> GroupViews::ViewOf(const Tables& tables,
                                                    const std::shared_ptr<const JobEntry>& job) {
  const std::string& uid = job->record.uid();
  MutexLock lock(&mutex_);
  if (views_.size() >= kMostViews && views_.count(uid) == 0) views_.clear();
  std::shared_ptr<const GroupView>& view = views_[uid];
  if (view == nullptr || view->job != job) view = MakeView(tables, job);
  return view;
}

}  // namespace adaptdl::supervisor
