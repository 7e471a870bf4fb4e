// How many samples a replica's memory holds at once, as far as a loader has found out.
//
//   memory exhausted ──Halve()──▶ own bound ──announced with the step's exchange──▶ bound of all replicas
//
// The bound of all is the same on all replicas at every step, and is part of checkpoints; a replica's own may
// be tighter until the others know.
//
// Thread-safety: the training thread only.

#ifndef ADAPTDL_LIBS_ELASTIC_DATA_LOCAL_BOUND_H_
#define ADAPTDL_LIBS_ELASTIC_DATA_LOCAL_BOUND_H_

#include <cstdint>
#include <string>

namespace adaptdl::elastic {

class JobCore;

// The smaller one of two bounds, of which 0 is none.
int64_t TighterBound(int64_t a, int64_t b);

class LocalBound {
 public:
  // `kind`: of the loader, as ReplayState says. `asked_for`: by the user; 0: none.
  LocalBound(JobCore* core, std::string kind, int64_t asked_for);
  ~LocalBound();
  LocalBound(const LocalBound&) = delete;
  LocalBound& operator=(const LocalBound&) = delete;

  // 0: none.
  int64_t of_all() const;
  int64_t own() const { return TighterBound(own_, of_all()); }

  // `failed` samples did not fit. At least 2.
  void Halve(int64_t failed);

 private:
  JobCore* const core_;
  const std::string kind_;
  const int64_t asked_for_;
  int64_t own_ = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_DATA_LOCAL_BOUND_H_
