"""The parts of scripts/test-gpu.sh: runs programs that are built already, on a GPU or, the same cases, on the CPU.

Knows nothing but Python's own library, because the machine that it runs on may have nothing else.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PART_SECONDS = 480
EXIT_STOPPED = 143
EXIT_PEER_LOST = 75
# In place of NCCL: what cannot be opened makes replicas exchange by way of main memory.
NO_NCCL = {"ADAPTDL_NCCL_LIBRARY": "/nowhere/libnccl.so.2"}


class Failed(Exception):
    pass


class Program:
    """A process whose output is read as it comes."""

    def __init__(self, command, env=None):
        self.command = command
        self.lines = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(command, env={**os.environ, **(env or {})}, text=True, errors="replace",
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip())
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    @property
    def output(self):
        with self.changed:
            return "\n".join(self.lines)

    def wait_for(self, text, seconds):
        end = time.monotonic() + seconds
        with self.changed:
            while not any(text in line for line in self.lines):
                left = end - time.monotonic()
                if left <= 0 or not self.reader.is_alive():
                    raise Failed(f"{self.name()} does not say \"{text}\":\n" + "\n".join(self.lines[-20:]))
                self.changed.wait(min(left, 1))

    def name(self):
        return " ".join([pathlib.Path(self.command[0]).name, *self.command[1:]])

    def wait(self, seconds):
        """The exit code."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self.name()} did not end within {seconds:.0f} s:\n" + "\n".join(self.lines[-20:])) from None
        self.reader.join(5)
        return code

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()


class Runner:
    def __init__(self, programs, device):
        self.programs = programs
        self.device = device
        self.end = 0

    def begin(self):
        self.end = time.monotonic() + PART_SECONDS

    def left(self):
        """Seconds of the part's time."""
        return max(self.end - time.monotonic(), 1)

    def path(self, program):
        for folder in ("", "bin", "tests", "bench"):
            found = self.programs / folder / program
            if found.is_file():
                return str(found)
        raise Failed(f"{self.programs} has no {program}; build it first")

    def run(self, program, *arguments, env=None, seconds=None, shows=True):
        """The output of a program that ends with 0."""
        running = Program([self.path(program), *arguments], env)
        try:
            code = running.wait(min(seconds or self.left(), self.left()))
        finally:
            running.kill()
        if code != 0:
            raise Failed(f"{running.name()} ended with {code}:\n" + "\n".join(running.lines[-40:]))
        if shows:
            print(f"$ {running.name()}\n{running.output}\n", flush=True)
        return running.output

    def test(self, program):
        """A GoogleTest program; on a GPU, those of its tests that are for any device must be there for that one."""
        start = time.monotonic()
        listed = subprocess.run([self.path(program), "--gtest_list_tests"], capture_output=True, text=True, check=True)
        # One process for each suite would start LibTorch as often.
        output = self.run(program, "--gtest_brief=1", shows=False)
        passed = re.search(r"\[  PASSED  \] (\d+) tests?", output)
        if not passed:
            raise Failed(f"{program} says nothing of tests that passed:\n{output}")
        on_gpu = len(re.findall(r"cuda", listed.stdout, re.IGNORECASE))
        print(f"{program}: {passed.group(1)} tests passed, {on_gpu} of them on CUDA, {time.monotonic() - start:.1f} s",
              flush=True)
        return on_gpu

    def group(self, program, replicas, *arguments, env=None):
        """One replica of a job for each rank, which NCCL takes for hosts of their own."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        return [
            Program([self.path(program), "--device", self.device, *arguments], {
                "ADAPTDL_REPLICA_RANK": str(rank),
                "ADAPTDL_NUM_REPLICAS": str(replicas),
                "ADAPTDL_NUM_NODES": "1",
                "ADAPTDL_MASTER_PORT": str(port),
                "NCCL_HOSTID": f"adaptdl-{rank}",
                "NCCL_SOCKET_IFNAME": "lo",
                **(env or {}),
            }) for rank in range(replicas)
        ]

    def transport(self):
        """What makes several replicas on one device work: nothing where they can use NCCL, else NO_NCCL."""
        if self.device == "cpu":
            return {}
        members = self.group("adaptdl-mnist", 2, "--samples", "500", "--epochs", "1")
        try:
            codes = [member.wait(min(90, self.left())) for member in members]
            if codes == [0, 0]:
                return {}
            print(f"two ranks over NCCL on one GPU ended with {codes}:\n{members[0].output}", flush=True)
        except Failed as failure:
            print(f"two ranks over NCCL on one GPU: {failure}", flush=True)
        finally:
            for member in members:
                member.kill()
        print("NCCL does not do that here; they exchange by way of pinned main memory", flush=True)
        return NO_NCCL


def losses(output):
    return [float(number) for number in re.findall(r"train loss ([0-9.naif-]+)", output)]


def expect_learning(output, what):
    found = losses(output)
    if len(found) < 2 or not found[-1] < found[0]:
        raise Failed(f"{what} did not learn: losses {found}\n{output}")


def kernels(runner):
    """Kernels and the engine's tests over descriptions of tensors, on every device that there is."""
    on_gpu = sum(runner.test(test) for test in ("device_test", "elastic_gradients_test", "elastic_step_test",
                                                 "elastic_statistics_test"))
    if runner.device == "cuda" and on_gpu == 0:
        raise Failed("none of these tests ran on CUDA: the library libadaptdl_cuda.so sees no GPU")


EXAMPLES = {
    "adaptdl-mnist": ["--samples", "4000", "--epochs", "3"],
    "adaptdl-cifar": ["--samples", "1000", "--epochs", "3", "--width", "8", "--lr", "0.05", "--batch-size", "32"],
    "adaptdl-ncf": ["--samples", "8000", "--epochs", "3", "--width", "8"],
    "adaptdl-transformer": ["--samples", "2000", "--epochs", "3", "--width", "32"],
}


def training(runner):
    """Each example learns, in each precision; and the model is that of the CPU."""
    runner.test("elastic_device_training_test")
    for program, arguments in EXAMPLES.items():
        mixed = program in ("adaptdl-cifar", "adaptdl-transformer")
        precisions = ["fp32", "bf16", "fp16"] if mixed else ["fp32"]
        for precision in precisions:
            if precision == "fp16" and runner.device == "cpu":
                continue  # a CPU has none
            chosen = ["--precision", precision] if mixed else []
            output = runner.run(program, "--device", runner.device, *arguments, *chosen)
            expect_learning(output, f"{program} in {precision}")


def restart(runner):
    """A replica that is stopped goes on where it was; and training over re-scales in place gives the same model."""
    folder = tempfile.mkdtemp(prefix="adaptdl-gpu-")
    try:
        env = {"ADAPTDL_CHECKPOINT_PATH": folder}
        arguments = EXAMPLES["adaptdl-transformer"]
        (first,) = runner.group("adaptdl-transformer", 1, *arguments, env=env)
        first.wait_for("epoch 1:", runner.left())
        first.process.send_signal(signal.SIGTERM)
        code = first.wait(60)
        if code != EXIT_STOPPED:
            raise Failed(f"a replica that is stopped ends with {EXIT_STOPPED}, not with {code}:\n{first.output}")
        (second,) = runner.group("adaptdl-transformer", 1, *arguments, env=env)
        code = second.wait(runner.left())
        if code != 0 or "restored checkpoint" not in second.output or "epoch 1:" in second.output:
            raise Failed(f"it did not go on (exit code {code}):\n{second.output}")
        print(f"stopped after {len(losses(first.output))} epochs, and went on:\n{second.output}\n", flush=True)
    finally:
        shutil.rmtree(folder)
    runner.test("elastic_in_place_test")


def ranks(runner):
    """Two and three replicas on one device."""
    transport = runner.transport()
    for size in (2, 3):
        members = runner.group("adaptdl-cifar", size, *EXAMPLES["adaptdl-cifar"], env=transport)
        try:
            codes = [member.wait(runner.left()) for member in members]
        finally:
            for member in members:
                member.kill()
        if codes != [0] * size:
            raise Failed(f"{size} replicas ended with {codes}:\n" + "\n\n".join(member.output for member in members))
        expect_learning(members[0].output, f"{size} replicas")
        print(f"{size} replicas:\n{members[0].output}\n", flush=True)


def faults(runner):
    """A rank that is killed, or stands still, within a step: the other one ends, and says why."""
    transport = runner.transport()
    for name in ("SIGKILL", "SIGSTOP"):
        members = runner.group("adaptdl-cifar", 2, "--samples", "1000", "--epochs", "1000", "--width", "8",
                               env={**transport, "ADAPTDL_COLLECTIVE_TIMEOUT_SECONDS": "10"})
        try:
            members[0].wait_for("epoch 1:", runner.left())
            members[1].process.send_signal(getattr(signal, name))
            start = time.monotonic()
            code = members[0].wait(60)
        finally:
            for member in members:
                member.kill()
        if code != EXIT_PEER_LOST:
            raise Failed(f"after {name} of its peer a replica ends with {EXIT_PEER_LOST}, not with {code}:\n"
                         f"{members[0].output}")
        reason = [line for line in members[0].lines if line.startswith("adaptdl:")][-1]
        print(f"{name}: the other replica ended after {time.monotonic() - start:.1f} s: {reason}", flush=True)


# Of an overhead, in per cent, by how many steps the statistics are measured in one of.
GOALS = {"8": 2.0, "1": 5.0}


def overhead(runner):
    """What the training library costs a step."""
    arguments = ["--device", runner.device, "--benchmark_format=json"]
    if runner.device == "cpu":
        # The same cases, as small as they can be.
        arguments += ["--steps", "8", "--warm-up", "8", "--pairs", "1", "--resnet-batch", "2", "--transformer-batch", "1"]
    output = runner.run("overhead_bench", *arguments, shows=False)
    for each in json.loads(output[output.index("{\n"):])["benchmarks"]:
        goal = GOALS[re.search(r"statistics_every:(\d+)", each["name"]).group(1)]
        print(f"{each['name']}: plain {each['plain_ms']:.2f} ms, elastic {each['elastic_ms']:.2f} ms: "
              f"{each['overhead_pct']:+.2f} % (goal on a GPU: {goal:.0f} %)", flush=True)


def exchange(runner):
    """How gradients travel between two ranks on one device."""
    small = {"resnet18": ["--batch", "8"], "transformer": ["--batch", "1", "--steps", "3"]}
    for model in ("resnet18", "transformer"):
        arguments = small[model] if runner.device == "cpu" else []
        runner.run("exchange_bench", "--device", runner.device, "--model", model, *arguments)


PARTS = (kernels, training, restart, ranks, faults, overhead, exchange)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="folder that has them, or whose bin, tests "
                        "and bench have")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("part", nargs="*", help="of: " + ", ".join(part.__name__ for part in PARTS) + "; all without")
    arguments = parser.parse_args()
    unknown = set(arguments.part) - {part.__name__ for part in PARTS}
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    return arguments


def main():
    arguments = parse_arguments()
    runner = Runner(arguments.programs, arguments.device)
    failed = []
    for part in PARTS:
        name = part.__name__
        if arguments.part and name not in arguments.part:
            continue
        print(f"gpu: {name} on {arguments.device}: {part.__doc__}", flush=True)
        start = time.monotonic()
        runner.begin()
        try:
            part(runner)
            print(f"gpu: {name} passed in {time.monotonic() - start:.0f} s", flush=True)
        except Failed as failure:
            failed.append(name)
            print(f"gpu: {name} FAILED: {failure}", flush=True)
    if failed:
        print(f"gpu: failed: {', '.join(failed)}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
