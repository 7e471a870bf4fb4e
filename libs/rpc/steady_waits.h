// Abseil's waits, and with them gRPC's, last as long as they were meant to, also when somebody sets the wall
// clock.
//
// Abseil before 2023 waits until a moment of the wall clock, also where it is given a duration: after the
// clock was set back an hour, a wait of a second lasts an hour. gRPC's timers hang on such a wait, and with
// them the deadlines of calls, keep-alive and alarms. Abseil lets a program bring its own way to wait; this
// is one by the monotonic clock. Later versions of Abseil do so themselves.

#ifndef ADAPTDL_LIBS_RPC_STEADY_WAITS_H_
#define ADAPTDL_LIBS_RPC_STEADY_WAITS_H_

namespace adaptdl::rpc {

// Whoever calls this has the waits linked into the program; nothing else happens.
void LinkSteadyWaits();

}  // namespace adaptdl::rpc

#endif  // ADAPTDL_LIBS_RPC_STEADY_WAITS_H_
