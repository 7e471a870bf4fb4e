// What the environment tells this process about its job, one function for each variable.
//
// Values are checked: a wrong one ends the process with a message that names its variable (exit code 1), as
// Init() does. A variable that is not set, or empty, gives its default. docs/training-library.md says who
// sets which. What is true while the job runs is the job's to say (rank(), num_replicas()): the rank and the
// number of replicas here are those at launch.
//
// Thread-safety: thread-safe, as long as nobody sets variables.

#ifndef ADAPTDL_ENV_H_
#define ADAPTDL_ENV_H_

#include <cstdint>
#include <string>

namespace adaptdl::env {

// ADAPTDL_CHECKPOINT_PATH: folder of checkpoints. "": none are written.
std::string CheckpointPath();
// ADAPTDL_START_PATH: folder with another job's checkpoints, to begin with where there is none of its own. "": it begins
// anew.
std::string StartPath();
// ADAPTDL_SHARE_PATH: folder for results. "": none.
std::string SharePath();
// ADAPTDL_TENSORBOARD_LOGDIR: folder for TensorBoard. "": none.
std::string TensorBoardLogDir();
// ADAPTDL_JOB_ID: "namespace/name". "": the program was not started by a cluster.
std::string JobId();
// ADAPTDL_SUPERVISOR_ADDRESS: "host:port". "": there is no supervisor.
std::string SupervisorAddress();
// ADAPTDL_MASTER_ADDR and ADAPTDL_MASTER_PORT: where rank 0 listens when there is no supervisor. Default:
// "127.0.0.1", and 0 for none.
std::string MasterAddr();
int MasterPort();
// ADAPTDL_REPLICA_RANK, from 0 (default), and ADAPTDL_NUM_REPLICAS (1).
int ReplicaRank();
int NumReplicas();
// ADAPTDL_NUM_NODES: distinct nodes of the replicas. Default: as many as replicas.
int NumNodes();
// ADAPTDL_NUM_RESTARTS: how often the job was started again (0).
int NumRestarts();
// ADAPTDL_CHECKPOINT_PERIOD_SECONDS (30), ADAPTDL_CHECKPOINT_PERIOD_STEPS (0: the time counts) and
// ADAPTDL_CHECKPOINT_KEEP (2).
double CheckpointPeriodSeconds();
int64_t CheckpointPeriodSteps();
int CheckpointKeep();
// ADAPTDL_HINTS_PERIOD_SECONDS (30) and ADAPTDL_COLLECTIVE_TIMEOUT_SECONDS (300).
double HintsPeriodSeconds();
double CollectiveTimeoutSeconds();

}  // namespace adaptdl::env

#endif  // ADAPTDL_ENV_H_
