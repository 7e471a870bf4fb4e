"""`python -m adaptdl.tune` against a cluster of the real programs: a search whose tuner and supervisor are killed in the
middle goes on and runs nothing twice; programs of Python that report, and any that print.

tune_test.py BUILD_FOLDER
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(BUILD / "python"))
try:
    import optuna  # noqa: F401
except ImportError:
    print("SKIPPED: there is no Optuna; scripts/setup.sh installs it", file=sys.stderr)
    sys.exit(77)
from adaptdl.client import Client, JobNotFoundError  # noqa: E402

PATIENCE = 120
FOLDER = tempfile.mkdtemp(prefix="adaptdl-tune-")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTDL_")}
ENVIRONMENT.update(ADAPTDL_HOME=FOLDER + "/state", PYTHONPATH=str(BUILD / "python"),
                   PATH=f"{BUILD}/bin:{os.environ['PATH']}")

PRINTS = """
name: prints
command: 'echo "step 1 loss $(echo {x} | tr -d -)"; while [ ! -e %s/go ]; do sleep 0.05; done; echo "step 2 loss {x}"'
parameters: {x: {uniform: [0.5, 2]}}
metric: {name: loss, direction: minimize, log: 'step (?P<step>\\d+) loss (?P<value>\\S+)'}
budget: {trials: 4}
at_once: 2
job: {max_replicas: 1, cpus: 0.1}
"""
DIGITS = """
name: digits
command: [/usr/bin/python3, %s/examples/python-mnist/mnist.py, "--samples=500", "--epochs=2", "--max-batch-size=0",
          "--learning-rate={lr}"]
parameters: {lr: {choice: [1.0e-6, 0.05]}}
metric: {name: accuracy, direction: maximize}
budget: {trials: 2}
algorithm: grid
job: {max_replicas: 1, cpus: 0.5, env: {PYTHONPATH: "%s", OMP_NUM_THREADS: "1"}}
"""
TWINS = """
name: twins
command: [/usr/bin/python3, %s/examples/python-mnist/mnist.py, "--samples=500", "--epochs=2", "--max-batch-size=0", --validate,
          "--dropout=0.2", "--shift=1"]
parameters: {copy: {int: [1, 2]}}
metric: {name: test_accuracy, direction: maximize}
budget: {trials: 2}
algorithm: grid
job: {max_replicas: 1, cpus: 0.5, env: {PYTHONPATH: "%s", OMP_NUM_THREADS: "1"}}
"""
JOBS = """
name: jobs
command: 'while [ ! -e %s/jobs-go ]; do sleep 0.05; done; echo "step 1 loss {x}"'
parameters: {x: {uniform: [0.5, 2]}}
metric: {name: loss, direction: minimize, log: 'step (?P<step>\\d+) loss (?P<value>\\S+)'}
budget: {trials: 4}
at_once: 2
job: {max_replicas: 1, cpus: 0.5}
"""
PROJECT = """
name: folder
command: 'echo "loss $(cat number) {x}"'
parameters: {x: {uniform: [0, 1]}}
metric: {name: loss, direction: minimize, log: 'loss (\\S+)'}
budget: {trials: 1}
job: {max_replicas: 1, cpus: 0.1, folder: project}
"""
SILENT = """
name: silent
command: [sh, -c, "exit {code}"]
parameters: {code: {int: [1, 9]}}
metric: {name: score, direction: maximize}
budget: {trials: 5}
at_once: 1
job: {max_replicas: 1, cpus: 0.1}
"""


def adaptdl(*words):
    done = subprocess.run([BUILD / "bin/adaptdl", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=PATIENCE, env=ENVIRONMENT)
    if done.returncode:
        raise RuntimeError(f"{words} failed: {done.stdout}")
    return done.stdout


def start(*words):
    return subprocess.Popen([sys.executable, "-m", "adaptdl.tune", *words], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT, cwd=FOLDER)


def tune(*words, code=0):
    process = start(*words)
    output, _ = process.communicate(timeout=PATIENCE)
    if process.returncode != code:
        raise AssertionError(f"{words}: exit code {process.returncode}\n{output}")
    return output


def read_until(test, process, reached):
    """What the process has said when it has said enough."""
    said = ""
    while not reached(said):
        line = process.stdout.readline()
        test.assertTrue(line, said)
        said += line
    return said


def kill_supervisor():
    pid = pathlib.Path(FOLDER, "state/run/supervisor.pid").read_text()
    os.kill(int(re.search(r"\d+", pid).group()), signal.SIGKILL)


def process_of(job):
    """Of the replica of a job in namespace default."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"ADAPTDL_JOB_ID=default/{job}\0".encode() in (entry / "environ").read_bytes():
                return int(entry.name)
        except OSError:
            pass
    raise AssertionError(f"no process of {job}")


def write(name, text):
    pathlib.Path(FOLDER, name).write_text(text)
    return name


def setUpModule():
    adaptdl("cluster", "up", "--workers", "1", "--port", "0")


def tearDownModule():
    subprocess.run([BUILD / "bin/adaptdl", "cluster", "down", "--force", "--purge"], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, env=ENVIRONMENT, timeout=PATIENCE)
    shutil.rmtree(FOLDER, ignore_errors=True)


class TuneTest(unittest.TestCase):
    def setUp(self):
        os.environ["ADAPTDL_HOME"] = ENVIRONMENT["ADAPTDL_HOME"]
        self.client = Client()
        self.addCleanup(self.client.close)

    def test_tuner_and_supervisor_are_killed_and_nothing_runs_twice(self):
        path = write("prints.yaml", PRINTS % FOLDER)
        tuner = start("run", path, "--local", "--interval", "0.2")
        said = ""
        while said.count("is running") < 2:  # the first two trials, which wait
            line = tuner.stdout.readline()
            self.assertTrue(line, said)
            said += line
        tuner.kill()
        tuner.communicate()
        kill_supervisor()
        adaptdl("cluster", "up")
        pathlib.Path(FOLDER, "go").touch()
        output = tune("resume", "prints", "--local", "--interval", "0.2")
        self.assertIn("4 of 4 trials have ended; best loss", output)
        jobs = self.client.list(labels={"adaptdl-tune-search": "prints"})
        self.assertEqual(sorted(job.name for job in jobs), ["prints", *(f"prints-{i}" for i in (1, 2, 3, 4))])
        self.assertEqual({job.phase for job in jobs if job.name != "prints"}, {"SUCCEEDED"})
        shown = tune("show", "prints")
        self.assertEqual(len(re.findall(r"^\d+\*? +done", shown, re.M)), 4, shown)
        self.assertRegex(shown, r"\n[0-9]+[ms].* elapsed\n")
        self.assertIn("has written no files", tune("best", "prints", "--copy", "nothing", code=1))
        everything = json.loads(tune("export", "prints"))["trials"]
        best = json.loads(tune("best", "prints"))
        self.assertEqual(best["loss"], min(one["params"]["x"] for one in everything))
        self.assertEqual([point[0] for point in best["curve"]], [1, 2])
        tune("export", "prints", "--sqlite", "prints.db")
        study = optuna.load_study(study_name="prints", storage=f"sqlite:///{FOLDER}/prints.db")
        self.assertEqual(study.best_value, best["loss"])
        tune("plot", "prints")
        for name in ("curves", "parallel"):
            self.assertIn("trial 4: ", pathlib.Path(FOLDER, f"prints-{name}.svg").read_text())
        self.assertIn("prints is over", tune("ls"))
        tune("delete", "prints")
        self.assertEqual(self.client.list(labels={"adaptdl-tune-search": "prints"}), [])

    def test_a_program_in_python_reports(self):
        tune("run", write("digits.yaml", DIGITS % (ROOT, BUILD / "python")), "--interval", "0.2")
        first, second = json.loads(tune("export", "digits"))["trials"]
        self.assertEqual(json.loads(tune("best", "digits"))["params"], {"lr": 0.05})
        self.assertGreater(second["accuracy"], first["accuracy"])
        said = tune("best", "digits", "--copy", "copied")
        self.assertIn("shared files of default/digits-2 to copied", said)
        copied = pathlib.Path(FOLDER, "copied")
        self.assertEqual(json.loads((copied / "trial.json").read_text())["number"], 2)
        self.assertTrue(list((copied / "checkpoint").rglob("MANIFEST")), said)
        self.assertIn("copied: it is there already: give a new folder", tune("best", "digits", "--copy", "copied", code=1))

    def test_seed_and_parameters_give_the_same_bits_on_fixed_replicas(self):
        tune("run", write("twins.yaml", TWINS % (ROOT, BUILD / "python")), "--interval", "0.2")
        first, second = ({metric.name: metric.value for metric in self.client.get(f"twins-{i}").raw.status.progress.metrics}
                         for i in (1, 2))
        self.assertEqual(set(first), {"loss", "accuracy", "test_accuracy"})
        self.assertEqual(first, second)

    def test_a_job_begins_with_anothers_checkpoint_and_goes_on_with_its_own(self):
        def train(name, epochs, **options):
            job = self.client.submit(["/usr/bin/python3", f"{ROOT}/examples/python-mnist/mnist.py", "--samples=500",
                                      f"--epochs={epochs}"], name=name, max_replicas=1, cpus=0.5, max_restarts=0,
                                     env={"PYTHONPATH": str(BUILD / "python"), "OMP_NUM_THREADS": "1"}, **options)
            self.client.wait(name, timeout=PATIENCE)
            text = "\n".join(line.text for line in self.client.logs(name))
            return job, re.findall(r"^epoch (\d+):", text, re.M)

        parent, epochs = train("parent", 2)
        self.assertEqual(epochs, ["0", "1"])
        child, epochs = train("child", 4, start_from="parent")
        self.assertEqual(epochs, ["2", "3"])
        self.assertEqual(child.raw.spec.start_from.job_uid, parent.uid)
        # The child has its own by now.
        self.client.delete("parent")
        self.assertEqual(train("grandchild", 5, start_from="child")[1], ["4"])
        with self.assertRaisesRegex(JobNotFoundError, "spec.start_from.job: there is no job"):
            self.client.submit(["true"], name="orphan", start_from="parent")
        self.client.submit(["true"], name="empty", max_replicas=1, cpus=0.1)
        self.client.wait("empty", timeout=PATIENCE)
        self.client.submit(["true"], name="hopeless", start_from="empty", max_replicas=1, cpus=0.1, max_restarts=0)
        job = self.client.wait("hopeless", timeout=PATIENCE)
        self.assertEqual(job.phase, "FAILED")
        self.assertIn("spec.start_from: job \"empty\" has written no checkpoint", job.message)

    def test_the_tuner_is_a_job_that_outlives_its_process(self):
        path = write("jobs.yaml", JOBS % FOLDER)
        follower = start("run", path, "--interval", "0.2")
        said = read_until(self, follower, lambda text: text.count("is running") == 2)
        os.kill(process_of("jobs"), signal.SIGKILL)
        kill_supervisor()
        adaptdl("cluster", "up")
        pathlib.Path(FOLDER, "jobs-go").touch()
        rest, _ = follower.communicate(timeout=PATIENCE)
        self.assertEqual(follower.returncode, 0, said + rest)
        self.assertIn("4 of 4 trials have ended; best loss", rest)
        tuner = self.client.get("jobs")
        self.assertEqual(tuner.phase, "SUCCEEDED")
        self.assertGreaterEqual(tuner.failures, 1)
        self.assertEqual(tuner.raw.spec.template.resources.cpu_millis, 0)
        jobs = self.client.list(labels={"adaptdl-tune-search": "jobs"})
        self.assertEqual(sorted(job.name for job in jobs), ["jobs", *(f"jobs-{i}" for i in (1, 2, 3, 4))])

    def test_who_follows_may_go_and_come_again_and_stop_it(self):
        path = write("left.yaml", JOBS.replace("name: jobs", "name: left") % (FOLDER + "/nowhere"))
        follower = start("run", path, "--interval", "0.2")
        read_until(self, follower, lambda text: "is running" in text)
        follower.send_signal(signal.SIGINT)
        said, _ = follower.communicate(timeout=PATIENCE)
        self.assertEqual(follower.returncode, 130, said)
        self.assertIn("left goes on in the cluster; python3 -m adaptdl.tune resume left shows it again", said)
        self.assertFalse(self.client.get("left").finished)
        again = start("resume", "left", "--interval", "0.2")
        read_until(self, again, lambda text: "is running" in text)
        # Also by the job's own end.
        self.client.cancel("left")
        again.communicate(timeout=PATIENCE)
        self.assertEqual(again.returncode, 3)
        self.client.wait("left-1", timeout=PATIENCE)
        jobs = self.client.list(labels={"adaptdl-tune-search": "left"})
        self.assertEqual({job.phase for job in jobs}, {"CANCELLED"})

    def test_a_folder_is_sent_once_and_is_where_trials_start(self):
        project = pathlib.Path(FOLDER, "project")
        project.mkdir()
        (project / "number").write_text("7")
        path = write("folder.yaml", PROJECT)
        tune("run", path, "--interval", "0.2")
        shutil.rmtree(project)
        self.assertEqual(json.loads(tune("best", "folder"))["loss"], 7)
        # Budget and place may change.
        write("folder-2.yaml", json.dumps({**json.loads(tune("export", "folder"))["search"], "budget": {"trials": 2}}))
        self.assertIn("2 of 2 trials have ended", tune("run", "folder-2.yaml", "--local", "--interval", "0.2"))

    def test_a_node_that_cannot_run_the_tuner_says_what_helps(self):
        bare = pathlib.Path(FOLDER, "bare-tuner")
        bare.write_text(f"#!/bin/sh\nunset PYTHONPATH\nexec {sys.executable} -I \"$@\"\n")
        bare.chmod(0o755)
        text = JOBS.replace("name: jobs", "name: unfit") % FOLDER + f"tuner: {{python: {bare}}}\n"
        said = tune("run", write("unfit.yaml", text), "--interval", "0.2", code=1)
        self.assertIn("of the node has no package adaptdl with searches", said)
        self.assertIn("--local runs it in this terminal", said)
        self.assertTrue(self.client.wait("unfit", timeout=PATIENCE).finished)

    def test_every_block_of_the_document_runs(self):
        text = (ROOT / "docs/tuning.md").read_text()
        (search, population), (shell,), (code,) = (re.findall(rf"^```{kind}\n(.*?)^```", text, re.M | re.S)
                                                   for kind in ("yaml", "sh", "python"))
        write("parabola.yaml", search)
        write("climb.yaml", population)
        # The reader's python3 is the one that has the packages.
        programs = pathlib.Path(FOLDER, "programs")
        programs.mkdir()
        (programs / "python3").symlink_to(sys.executable)
        reader = {**ENVIRONMENT, "PATH": f"{programs}:{ENVIRONMENT['PATH']}"}
        for command in ([*"bash -euo pipefail -c".split(), shell], [sys.executable, "-c", code]):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
                                  cwd=FOLDER, env=reader)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertRegex(done.stdout, r"(?s)best loss .*optuna-dashboard.*deleted, with 6 trials|\{'x': 3\}")
        tune("run", "climb.yaml", "--interval", "0.2")
        shown = json.loads(tune("export", "climb"))["trials"]
        forks = [trial for trial in shown if "fork_of" in trial]
        self.assertTrue(forks, shown)
        by_number = {trial["number"]: trial for trial in shown}
        for fork in forks:
            # The first step after the one that its parent had kept.
            step, height = fork["curve"][0]
            before = dict(by_number[fork["fork_of"]]["curve"]).get(step - 1, 0)
            self.assertAlmostEqual(height, before + fork["params"]["rate"], delta=1e-3 * max(1, height), msg=shown)
            self.assertGreater(step, 1)
        self.assertEqual(sum(trial["status"] == "done" for trial in shown), 4)

    def test_the_command_says_what_is_missing(self):
        def fails(python):
            done = subprocess.run([BUILD / "bin/adaptdl", "tune", "--python", python, "ls"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, env=ENVIRONMENT)
            self.assertEqual(done.returncode, 1, done.stdout)
            return done.stdout

        self.assertIn("there is no program /nowhere/python on this machine", fails("/nowhere/python"))
        bare = pathlib.Path(FOLDER, "bare-python")
        bare.write_text(f"#!/bin/sh\nunset PYTHONPATH\nexec {sys.executable} -I \"$@\"\n")
        bare.chmod(0o755)
        self.assertIn("pip install 'adaptdl-elastic[tune]'", fails(bare))

    def test_a_search_whose_trials_all_fail_ends(self):
        for where in ([], ["--local"]):
            output = tune("run", write("silent.yaml", SILENT), "--interval", "0.2", *where, code=1)
            self.assertIn("none of the first 3 trials ran to its end; of the last one:", output)
            tune("delete", "silent")
        self.assertIn("there is no search 'nothing' here", tune("show", "nothing", code=2))


if __name__ == "__main__":
    unittest.main()
