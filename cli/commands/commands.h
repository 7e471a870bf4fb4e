// The sub-commands. Each function adds one to `app`; when the command line names it, the parse sets
// context->action. `context` must outlive the parse and the action.

#ifndef ADAPTDL_CLI_COMMANDS_COMMANDS_H_
#define ADAPTDL_CLI_COMMANDS_COMMANDS_H_

#include "cli/context.h"

namespace CLI {
class App;
}

namespace adaptdl::cli {

void AddSubmit(CLI::App& app, Context* context);
void AddRun(CLI::App& app, Context* context);
void AddLs(CLI::App& app, Context* context);
void AddDescribe(CLI::App& app, Context* context);
void AddExplain(CLI::App& app, Context* context);
void AddLogs(CLI::App& app, Context* context);
void AddCp(CLI::App& app, Context* context);
void AddEvents(CLI::App& app, Context* context);
void AddTimeline(CLI::App& app, Context* context);
void AddDashboard(CLI::App& app, Context* context);
void AddHistory(CLI::App& app, Context* context);
void AddDebug(CLI::App& app, Context* context);
void AddDoctor(CLI::App& app, Context* context);
void AddTop(CLI::App& app, Context* context);
void AddWait(CLI::App& app, Context* context);
void AddUpdate(CLI::App& app, Context* context);
void AddSuspend(CLI::App& app, Context* context);
void AddResume(CLI::App& app, Context* context);
void AddCancel(CLI::App& app, Context* context);
void AddDelete(CLI::App& app, Context* context);
void AddNode(CLI::App& app, Context* context);
void AddNodes(CLI::App& app, Context* context);
void AddDrain(CLI::App& app, Context* context);
void AddForget(CLI::App& app, Context* context);
void AddPools(CLI::App& app, Context* context);
void AddCost(CLI::App& app, Context* context);
void AddQuota(CLI::App& app, Context* context);
void AddAdmin(CLI::App& app, Context* context);
// Of "adaptdl admin".
void AddCertificates(CLI::App& admin, Context* context);
void AddJoinToken(CLI::App& admin, Context* context);
void AddKubernetesSecrets(CLI::App& admin, Context* context);
void AddToken(CLI::App& admin, Context* context);
void AddTune(CLI::App& app, Context* context);
void AddTensorboard(CLI::App& app, Context* context);
void AddHealth(CLI::App& app, Context* context);
void AddCloud(CLI::App& app, Context* context);
// Offers what all commands added before and after it have.
void AddCompletion(CLI::App& app, Context* context);
void AddCluster(CLI::App& app, Context* context);
void AddVersion(CLI::App& app, Context* context);
void AddWhoAmI(CLI::App& app, Context* context);
void AddWhatIf(CLI::App& app, Context* context);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_COMMANDS_COMMANDS_H_
