// The doubles of an API server and of a scheduler with its nodes, as processes of a test. They belong to whoever makes them and end with
// it; not thread-safe; what goes wrong fails the test.

#ifndef ADAPTDL_TESTS_KUBE_DOUBLE_H_
#define ADAPTDL_TESTS_KUBE_DOUBLE_H_

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/process/pipe.h"
#include "libs/base/process/spawn.h"
#include "libs/base/process/wait.h"
#include "libs/http/http_client.h"

namespace adaptdl::kube {

// A module of this folder as a process, which says its address on its first line.
class DoubleProcess {
 public:
  DoubleProcess() = default;
  ~DoubleProcess() { Stop(SIGTERM); }
  DoubleProcess(const DoubleProcess&) = delete;
  DoubleProcess& operator=(const DoubleProcess&) = delete;

  // The address; "" if it did not start.
  std::string Start(std::vector<std::string> arguments) {
    Pipe pipe = Pipe::Open().value();
    SpawnOptions options;
    options.command = {"/usr/bin/python3", "-m"};
    for (std::string& argument : arguments) options.command.push_back(std::move(argument));
    options.working_directory = ADAPTDL_SOURCE_DIR "/tests/kube";
    options.output_fd = pipe.write_end.get();
    options.death_signal = SIGKILL;
    pid_ = Spawn(options).value();
    pipe.write_end.Reset();
    std::string line;
    char c;
    while (ReadSome(pipe.read_end.get(), &c, 1) == 1 && c != '\n') line.push_back(c);
    return line;
  }
  pid_t pid() const { return pid_; }
  void Stop(int signal) {
    if (pid_ == 0) return;
    kill(pid_, signal);
    Wait();
  }
  // The exit code, of one that ends by itself.
  int Wait() {
    const std::optional<ProcessEnd> end = WaitForChild(std::exchange(pid_, 0));
    return end.has_value() && end->signal == 0 ? end->code : -1;
  }

 private:
  pid_t pid_ = 0;
};

class ApiServerDouble {
 public:
  // `people`: token,user,uid,"group1,group2" a line; empty: anybody may do anything. `tls`: a folder with cert.pem and
  // key.pem; empty: it speaks no TLS.
  explicit ApiServerDouble(const std::string& people = "", std::string tls = "") : tls_(std::move(tls)) {
    char folder[] = "/tmp/adaptdl-apiserver-XXXXXX";
    folder_ = mkdtemp(folder);
    if (!people.empty()) std::ofstream(folder_ + "/people") << people;
    Start();
  }
  ~ApiServerDouble() {
    Stop();
    std::filesystem::remove_all(folder_);
  }

  // "http://127.0.0.1:PORT", the same after a restart.
  const std::string& url() const { return url_; }
  pid_t pid() const { return process_.pid(); }
  // "https://127.0.0.1:PORT", another one after a restart.
  const std::string& tls_url() const { return tls_url_; }

  // It goes on with what it had.
  void Start() {
    std::vector<std::string> command = {"apiserver", "--port",  absl::StrCat(port_), "--bookmark-period",
                                        "0.2",       "--state", folder_ + "/state"};
    if (std::filesystem::exists(folder_ + "/people")) {
      command.insert(command.end(), {"--token-auth-file", folder_ + "/people"});
    }
    if (!tls_.empty()) {
      command.insert(command.end(), {"--tls-cert", tls_ + "/cert.pem", "--tls-key", tls_ + "/key.pem"});
    }
    const std::string addresses = process_.Start(std::move(command));
    url_ = addresses.substr(0, addresses.find(' '));
    if (!tls_.empty()) tls_url_ = addresses.substr(addresses.find(' ') + 1);
    ASSERT_TRUE(absl::SimpleAtoi(url_.substr(url_.rfind(':') + 1), &port_)) << "it did not start: " << url_;
  }
  void Stop() { process_.Stop(SIGTERM); }

 private:
  const std::string tls_;
  std::string folder_;
  std::string url_;
  std::string tls_url_;
  int port_ = 0;
  DoubleProcess process_;
};

struct KubeletOptions {
  // As tests/kube/kubelet/README.md has them: JSON.
  std::string nodes = R"([{"name": "node-0"}])";
  std::string images = "{}";
  // Pods are not run: they are Running.
  bool hollow = false;
  // How long a node may be silent before it is not ready, and then how long its pods stay if they don't say.
  double node_grace_seconds = 40;
  double eviction_seconds = 300;
  // Who it is to the API server; empty: nobody asks.
  std::string token = {};
};

// A scheduler, the kubelets of some nodes, and the controllers that look after nodes. Needs what mounts need: to be root with
// CAP_SYS_ADMIN (but not if it is hollow).
class KubeletDouble {
 public:
  explicit KubeletDouble(const std::string& api_server, const KubeletOptions& options = {}) {
    char folder[] = "/tmp/adaptdl-kubelet-XXXXXX";
    folder_ = mkdtemp(folder);
    std::ofstream(folder_ + "/nodes.json") << options.nodes;
    std::ofstream(folder_ + "/images.json") << options.images;
    std::vector<std::string> command = {"kubelet",
                                        "--server",
                                        api_server,
                                        "--nodes",
                                        folder_ + "/nodes.json",
                                        "--images",
                                        folder_ + "/images.json",
                                        "--root",
                                        folder_ + "/root",
                                        "--node-grace",
                                        absl::StrCat(options.node_grace_seconds),
                                        "--eviction",
                                        absl::StrCat(options.eviction_seconds)};
    if (options.hollow) command.push_back("--hollow");
    if (!options.token.empty()) command.insert(command.end(), {"--token", options.token});
    url_ = process_.Start(std::move(command));
    if (!url_.empty()) return;
    constexpr int kSkipped = 77;
    EXPECT_EQ(process_.Wait(), kSkipped) << "it did not start";
  }
  // Whether this machine permits what it needs. If not there are no nodes: tests skip.
  bool runs() const { return !url_.empty(); }
  ~KubeletDouble() {
    Stop();
    std::filesystem::remove_all(folder_);
  }

  // Where it takes orders: "http://127.0.0.1:PORT".
  const std::string& url() const { return url_; }
  pid_t pid() const { return process_.pid(); }
  // Where volumes are.
  std::string root() const { return folder_ + "/root"; }

  // `node`: one element of KubeletOptions::nodes. A node of that name that was there is another machine now.
  void AddNode(const std::string& node) { Order("POST", "nodes", node); }
  // The Node object goes, the machine goes, its processes are killed.
  void RemoveNode(const std::string& name) { Order("DELETE", "nodes/" + name); }
  // The machine says nothing and hears nothing; its processes go on.
  void Silence(const std::string& node) { Order("POST", "nodes/" + node + "/silence"); }
  // It is heard of again.
  void Wake(const std::string& node) { Order("POST", "nodes/" + node + "/wake"); }
  // Silence, and the processes are killed.
  void Crash(const std::string& node) { Order("POST", "nodes/" + node + "/crash"); }
  void Cordon(const std::string& node) { Order("POST", "nodes/" + node + "/cordon"); }
  void Uncordon(const std::string& node) { Order("POST", "nodes/" + node + "/uncordon"); }
  // By the Eviction subresource, as kubectl drain does.
  void Evict(const std::string& space, const std::string& pod) { OrderPod(space, pod, "evict"); }
  // As the kernel does when a container takes too much memory.
  void KillForMemory(const std::string& space, const std::string& pod) { OrderPod(space, pod, "oom"); }

  // As a machine that loses its power: nothing is said any more.
  void Kill() { process_.Stop(SIGKILL); }
  void Stop() { process_.Stop(SIGTERM); }

 private:
  void OrderPod(const std::string& space, const std::string& pod, const std::string& what) {
    Order("POST", absl::StrCat("pods/", space, "/", pod, "/", what));
  }
  void Order(const std::string& method, const std::string& what, const std::string& body = "") {
    HttpClient http;
    const auto answer = http.Send({.method = method, .url = absl::StrCat(url_, "/", what), .body = body});
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->status, 200) << what << ": " << answer->body;
  }

  std::string folder_;
  std::string url_;
  DoubleProcess process_;
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_TESTS_KUBE_DOUBLE_H_
