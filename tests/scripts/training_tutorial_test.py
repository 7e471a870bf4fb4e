#!/usr/bin/env python3
"""docs/training.md, followed by a reader: every block is written down, applied or run, in the order of the document,
against the training library installed into a folder of its own. The folder of the build is the only argument."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EPOCH = re.compile(r"epoch (\d+): loss ([\d.]+), accuracy ([\d.]+) %")


def changed(text, diff):
    """`text` after the hunks of `diff`, which are parted by lines "@@" and fit one place each."""
    for hunk in re.split(r"^@@\n", diff, flags=re.MULTILINE):
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        new = "".join(line[1:] for line in lines if line[0] in " +")
        if ("\n" + text).count("\n" + old) != 1:
            sys.exit(f"this does not fit exactly one place of the program:\n{hunk}\nThe program:\n{text}")
        text = ("\n" + text).replace("\n" + old, "\n" + new)[1:]
    return text


class Reader:
    """Somebody who has built AdaptDL and follows the document in an empty folder."""

    def __init__(self, build, home):
        self.build = build
        self.home = home
        self.project = home / "ring"
        self.project.mkdir()
        self.program_is_built = False
        self.environment = dict(os.environ, HOME=str(home), ADAPTDL_HOME=str(home / "state"), OMP_NUM_THREADS="1",
                                PATH=f"{build / 'bin'}:{os.environ['PATH']}")
        for variable in [name for name in self.environment if name.startswith("ADAPTDL_") and name != "ADAPTDL_HOME"]:
            del self.environment[variable]
        if shutil.which("ccache"):
            self.environment.update(CMAKE_CXX_COMPILER_LAUNCHER="ccache", CCACHE_BASEDIR=str(home), CCACHE_NOHASHDIR="1",
                                    CCACHE_DIR=os.environ.get("CCACHE_DIR", os.path.expanduser("~/.cache/ccache")))

    def runs(self, script, folder=None):
        print(f"--- running\n{script}", flush=True)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder or self.project, timeout=400,
                              env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(done.stdout, flush=True)
        if done.returncode:
            sys.exit(f"exit code {done.returncode}")
        return done.stdout

    def follows(self, language, text):
        program = self.project / "train.cc"
        if language == "cpp":
            program.write_text(text)
        elif language == "diff":
            program.write_text(changed(program.read_text(), text))
            self.program_is_built = False
        elif language == "cmake":
            (self.project / "CMakeLists.txt").write_text(text)
        elif language == "yaml":
            (self.project / "adaptdljob.yaml").write_text(text)
        elif language == "sh" and "cmake --install" in text:
            self.runs(text.replace("build/release", str(self.build)), ROOT)
        elif language == "sh":
            if not self.program_is_built and "cmake" not in text:
                self.runs("cmake --build build")
            self.program_is_built = True
            learns(self.runs(text), text.count("build/train"))
        else:
            sys.exit(f"the test does not know what to do with a block of {language}")

    def is_stopped_and_goes_on(self):
        """Stops the program within its third epoch, then starts it again."""
        environment = dict(self.environment, ADAPTDL_CHECKPOINT_PATH=str(self.home / "stopped"),
                           ADAPTDL_SHARE_PATH=str(self.project))
        with subprocess.Popen(["build/train"], cwd=self.project, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as train:
            for line in train.stdout:
                if line.startswith("epoch 2"):
                    train.send_signal(signal.SIGTERM)
                    break
            first = train.stdout.read()
        if train.returncode != 143:
            sys.exit(f"it ended with {train.returncode} instead of 143 when it was stopped:\n{first}")
        done = subprocess.run(["build/train"], cwd=self.project, env=environment, check=True, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(done.stdout)
        epochs = [int(epoch) for epoch, _, _ in EPOCH.findall(done.stdout)]
        if not epochs or epochs[0] < 3 or epochs[-1] != 8 or "restored" not in done.stdout:
            sys.exit("it did not go on where it was stopped")
        if not (self.project / "best.safetensors").is_file():
            sys.exit("it exported no weights")


def learns(output, times):
    epochs = [(int(epoch), float(loss), float(accuracy)) for epoch, loss, accuracy in EPOCH.findall(output)]
    # The best of an epoch: steps as large as these now and then end one below it.
    if times and (not epochs or epochs[-1][0] != 8 or epochs[-1][1] > 0.6 * epochs[0][1] or
                  max(accuracy for _, _, accuracy in epochs[-8:]) < 90):
        sys.exit(f"it has not learnt: {epochs}")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    blocks = BLOCK.findall((ROOT / "docs/training.md").read_text())
    if {"cpp", "diff", "cmake", "sh", "yaml"} - {language for language, _ in blocks}:
        sys.exit("blocks are missing")
    with tempfile.TemporaryDirectory(prefix="adaptdl-tutorial-") as folder:
        reader = Reader(build, pathlib.Path(folder))
        for language, text in blocks:
            reader.follows(language, text)
        reader.is_stopped_and_goes_on()
        try:
            reader.runs("adaptdl cluster up --workers 2 --cpus-per-worker 1")
            learns(reader.runs("adaptdl submit . --follow"), 1)
        finally:
            subprocess.run(["adaptdl", "cluster", "down", "--force", "--purge"], env=reader.environment,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    print("the tutorial works")


if __name__ == "__main__":
    main()
