"""The emulated Amazon with machines that run. Each has an address of the loopback network, which the cloud's answers name; one that is
terminated is told to shut down, and loses its power a while later; one that is taken back gets its notice first."""

import base64
import datetime
import logging
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.sax.saxutils

from emulator import Emulator
from machines.machine import end_all_below
from machines.metadata import Metadata

HERE = pathlib.Path(__file__).resolve().parent
LOOK_SECONDS = 0.1
# What a machine that shuts down gets before its power is cut, and a spot machine from its notice on: Amazon gives minutes.
SHUTDOWN_SECONDS = 10
NOTICE_SECONDS = 6
SERVICES = ["adaptdl-supervisor", "adaptdl-allocator", "adaptdl-autoscaler"]
# Folders of a machine; all else that scripts name is there for all.
OWN_FOLDERS = re.compile(r"(?<![\w.~*])/(?=(?:etc|opt|var|root|usr/bin|usr/local|run)(?:/|\b))")


class Machine:
    """A running one."""

    def __init__(self, instance, number, user_data, folder, programs, address):
        self.instance = instance
        self.folder = folder / f"m{number}"
        self.root = self.folder / "root"
        self.address = address
        self.metadata = Metadata(instance, address)
        self.user_data = user_data
        self.ends_at = None
        (self.root / "usr/bin").mkdir(parents=True)
        (self.root / "var/lib").mkdir(parents=True)
        for path in [self.folder, self.root]:
            path.chmod(0o755)
        # As the image has them: servers with what is different here, the others as they are.
        for program in pathlib.Path(programs).glob("adaptdl*"):
            place = self.root / "usr/bin" / program.name
            if program.name in SERVICES:
                shutil.copy(HERE / "stand-ins/adaptdl-service", place)
            elif program.name == "adaptdl-worker":
                shutil.copy(HERE / "stand-ins/adaptdl-worker", place)
            elif program.is_file():
                place.symlink_to(program)
        # What another machine has written is about folders of any machine.
        user_data = re.sub(rf"{re.escape(str(folder))}/m\d+/root(?=/)", "", user_data)
        (self.folder / "user-data").write_text(OWN_FOLDERS.sub(lambda _: f"{self.root}/", user_data))
        environment = {
            "HOME": str(self.root / "root"),
            "LANG": "C.UTF-8",
            "PATH": f"{HERE / 'stand-ins'}:{self.root / 'usr/bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
            "MACHINE_ROOT": str(self.root),
            "MACHINE_ADDRESS": address,
            "MACHINE_METADATA": self.metadata.url,
            "MACHINE_PROGRAMS": str(programs),
            "MACHINE_PYTHON": sys.executable,
            "MACHINE_RELAY": str(HERE / "relay.py"),
        }
        (self.root / "root").mkdir()
        self.process = subprocess.Popen([sys.executable, HERE / "machine.py", self.folder], env=environment, start_new_session=True)

    def console(self):
        path = self.folder / "console.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def shut_down(self, seconds):
        if self.ends_at is None:
            self.ends_at = time.monotonic() + seconds
            self.process.terminate()

    def cut_power(self):
        """At once, whatever runs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP)  # it starts nothing again
            end_all_below(self.process.pid)
        self.process.kill()
        self.process.wait()
        self.metadata.stop()


class Cloud(Emulator):
    def __init__(self, folder, programs):
        self.folder = pathlib.Path(folder)
        self.programs = pathlib.Path(programs)
        self.addresses = {}  # by instance, in the order of their beginning
        self.running = {}
        self.past = {}  # machines that have ended
        self.tokens = {}  # answers of RunInstances
        self.notices = {}  # when who is taken
        self.machine_lock = threading.Lock()
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        super().__init__()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    # What moto does otherwise than EC2.

    def forward(self, request, body, form):
        action = form.get("Action")
        if action == "GetConsoleOutput":
            return 200, self.console_output(form["InstanceId"])
        token = form.get("ClientToken")
        if action == "RunInstances" and token in self.tokens:
            return 200, self.tokens[token]
        status, content = super().forward(request, body, form)
        if status == 200 and action in ("DescribeInstances", "RunInstances"):
            content = self.with_addresses(content.decode()).encode()
        if status == 200 and action == "RunInstances" and token:
            self.tokens[token] = content
        return status, content

    def address_of(self, instance):
        with self.machine_lock:
            # Of this process, so that the fixed ports of machines are those of nobody else.
            network = f"127.{os.getpid() >> 8 & 0x7f | 0x80}.{os.getpid() & 0xff}"
            return self.addresses.setdefault(instance, f"{network}.{len(self.addresses) + 1}")

    def with_addresses(self, text):
        """The answer with addresses that are there."""
        parts = re.split(r"(<instanceId>i-[0-9a-f]+</instanceId>)", text)
        for at in range(1, len(parts), 2):
            address = self.address_of(parts[at][len("<instanceId>"):-len("</instanceId>")])
            parts[at + 1] = re.sub(r"<privateIpAddress>[^<]*<", f"<privateIpAddress>{address}<", parts[at + 1])
        return "".join(parts)

    def console_output(self, instance):
        machine = self.running.get(instance) or self.past.get(instance)
        # EC2 keeps the last 64 KiB.
        text = machine.console().encode()[-65536:] if machine else b""
        return (f"<GetConsoleOutputResponse><instanceId>{xml.sax.saxutils.escape(instance)}</instanceId>"
                f"<output>{base64.b64encode(text).decode()}</output></GetConsoleOutputResponse>").encode()

    # The machines.

    def run(self):
        while not self.stopping.wait(LOOK_SECONDS):
            living = set(self.living())
            for instance in living - set(self.running) - set(self.past):
                self.boot(instance)
            for instance, machine in list(self.running.items()):
                if instance not in living:
                    machine.shut_down(SHUTDOWN_SECONDS)
                self.look_at_end(instance, machine)

    def boot(self, instance):
        answer = self.ec2().describe_instance_attribute(InstanceId=instance, Attribute="userData")
        user_data = base64.b64decode(answer["UserData"]["Value"]).decode()
        address = self.address_of(instance)
        self.running[instance] = Machine(instance, address.rsplit(".", 1)[1], user_data, self.folder, self.programs, address)

    def look_at_end(self, instance, machine):
        taken = self.notices.get(instance)
        is_taken = taken is not None and time.monotonic() >= taken
        if is_taken:
            self.ec2().terminate_instances(InstanceIds=[instance])
        has_ended = machine.process.poll() is not None
        if is_taken or has_ended or (machine.ends_at is not None and time.monotonic() >= machine.ends_at):
            machine.cut_power()
            self.past[instance] = self.running.pop(instance)

    def take_back(self, instance):
        """As Amazon takes a spot machine: with a notice."""
        self.notices[instance] = time.monotonic() + NOTICE_SECONDS
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=NOTICE_SECONDS)
        self.running[instance].metadata.give_notice(end.strftime("%Y-%m-%dT%H:%M:%SZ"))

    def stop(self):
        self.stopping.set()
        self.thread.join()
        for machine in self.running.values():
            machine.cut_power()
        super().stop()
