// The trial of a search for hyper-parameters (docs/tuning.md) that this process belongs to: the values that its
// parameters have.
//
//   const double learning_rate = adaptdl::trial::Number("lr", 0.01);
//   const std::string rule = adaptdl::trial::Text("rule", "adascale");
//
// Outside of a search, and for a parameter that this trial does not have, they give the default, so that a program is
// the same in both cases. A value of another kind ends the process with a message that names the parameter (exit code
// 1), as Init() does.
//
// Thread-safety: thread-safe, as long as nobody sets variables.

#ifndef ADAPTDL_TRIAL_H_
#define ADAPTDL_TRIAL_H_

#include <cstdint>
#include <string>

namespace adaptdl::trial {

// Whether this trial has the parameter. False outside of a search, and where its condition (when) does not hold.
bool Has(const std::string& name);
double Number(const std::string& name, double otherwise);
// A number with a fraction is none.
int64_t Integer(const std::string& name, int64_t otherwise);
std::string Text(const std::string& name, const std::string& otherwise);
bool Flag(const std::string& name, bool otherwise);

// Which trial of the search this is, from 1 on. 0: none.
int TrialNumber();
// Name of the search. "": there is none.
std::string SearchName();

}  // namespace adaptdl::trial

#endif  // ADAPTDL_TRIAL_H_
