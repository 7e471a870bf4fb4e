// How much work finished jobs of one kind took, and what that says about another of the kind.
//
//   PastWork past;
//   past.Add(5.1e6);
//   past.Add(4.2e6);
//   std::optional<double> left = past.Length(/*done=*/1e6);
//
// The logarithm of a job's work W is taken to be normally distributed within its kind, with the mean m and the deviation s of
// those that are done. Of few jobs the scatter is largely a guess, and the mean is uncertain by its part of it. What a
// job counts as that has done w is then
//
//   inf over d > 0 of  E[min(W - w, d) | W > w] / P(W - w <= d | W > w)
//
// the work that is expected for each job that is done by it: the reciprocal of Gittins' index, by which jobs of known
// distributions are best served on one server, as jobs of known work are by what they have left (Gittins, "Bandit processes
// and dynamic allocation indices", 1979). Before the kind's usual work it falls as a job gets there; a job that has
// done more than its kind does counts as longer and longer. Kinds whose jobs have nothing in common scatter widely, and
// so say little.
//
// A plain value. Pure; const methods are thread-safe.

#ifndef ADAPTDL_LIBS_PASTWORK_PAST_WORK_H_
#define ADAPTDL_LIBS_PASTWORK_PAST_WORK_H_

#include <optional>

namespace adaptdl::pastwork {

struct PastWork {
  // Jobs that are done.
  int jobs = 0;
  // Of the logarithms of their work: mean, and sum of squared deviations from it.
  double mean_log = 0;
  double squares_log = 0;

  // Work in any unit, the same for all of a kind. No-op for what is not finite and above 0.
  void Add(double work);

  // In the same unit; finite and above 0. nullopt: no job of the kind is done, or what is known of them makes no sense.
  std::optional<double> Length(double done) const;
};

}  // namespace adaptdl::pastwork

#endif  // ADAPTDL_LIBS_PASTWORK_PAST_WORK_H_
