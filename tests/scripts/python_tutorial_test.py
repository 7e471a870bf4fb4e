#!/usr/bin/env python3
"""docs/python.md, followed by a reader: every block is written down, applied or run, in the order of the
document. The folder of the build is the only argument. Exits with 77 (skipped) where /usr/bin/python3 has
no PyTorch."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from training_tutorial_test import BLOCK, ROOT, changed

EPOCH = re.compile(r"epoch (\d+): accuracy ([\d.]+) %")


class Reader:
    """Somebody who has built the package and follows the document in an empty folder."""
    def __init__(self, build, home):
        self.build = build
        self.home = home
        self.project = home / "project"
        self.project.mkdir()
        python = home / "bin"
        python.mkdir()
        (python / "python3").symlink_to("/usr/bin/python3")
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTDL_")}
        self.environment = dict(clean,
                                HOME=str(home),
                                ADAPTDL_HOME=str(home / "state"),
                                OMP_NUM_THREADS="1",
                                PYTHONPATH=str(build / "python"),
                                PATH=f"{python}:{build / 'bin'}:{os.environ['PATH']}")

    def runs(self, script):
        print(f"--- running\n{script}", flush=True)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "trap 'env -0 > ~/environment' EXIT\n" + script],
            cwd=self.project,
            timeout=300,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True)
        print(done.stdout, flush=True)
        if done.returncode:
            sys.exit(f"exit code {done.returncode}")
        # What a block exports is there in the next one.
        after = (self.home / "environment").read_text().rstrip("\0").split("\0")
        self.environment = dict(entry.split("=", 1) for entry in after)
        return done.stdout

    def follows(self, language, text):
        program = self.project / "train.py"
        if language == "python":
            program.write_text(text)
        elif language == "diff":
            program.write_text(changed(program.read_text(), text))
        elif language == "yaml":
            (self.project / "adaptdljob.yaml").write_text(
                text.replace("/path/of/the/package", str(self.build / "python")))
        elif language == "sh" and "cmake" in text:
            # What has been built already.
            self.runs("python3 -m adaptdl")
        elif "cluster up" in text:
            # Whatever comes of it, nothing is left running.
            self.runs("up=0\nunset ADAPTDL_CHECKPOINT_PATH\n" +
                      text.replace("adaptdl cluster down", "").replace("adaptdl submit . --follow",
                                                                       "adaptdl submit . --follow || up=1") +
                      "adaptdl cluster down --purge\nexit $up")
        elif language == "sh":
            self.learns(self.runs(text), text)
        else:
            sys.exit(f"the test does not know what to do with a block of {language}")

    @staticmethod
    def learns(output, text):
        found = EPOCH.findall(output)
        runs = len(re.findall("python3 train.py", text))
        # The second of two runs that share a checkpoint finds that all is done.
        expected = 3 * (1 if "export ADAPTDL_CHECKPOINT_PATH" in text else runs)
        if len(found) != expected or float(found[-1][1]) < 90:
            sys.exit(f"expected {expected} epochs, and an accuracy of 90 % in the end")


def main():
    if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode:
        print("SKIPPED: /usr/bin/python3 has no PyTorch", file=sys.stderr)
        sys.exit(77)
    with tempfile.TemporaryDirectory() as home:
        reader = Reader(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(home))
        for language, text in BLOCK.findall((ROOT / "docs/python.md").read_text()):
            reader.follows(language, text)


if __name__ == "__main__":
    main()
