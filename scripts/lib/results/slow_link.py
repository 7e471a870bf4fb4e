"""Runs a training program as two replicas with a slow link between them: each has a network namespace of its own, and a
proxy carries their packets to and fro, each after a delay.

    slow_link.py --delay-ms 5 --port 29500 -- PROGRAM [ARGUMENT...]

Needs root or user namespaces, and /dev/net/tun; 77 is the exit code where they are missing.
"""

import argparse
import array
import collections
import ctypes
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import time

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFMTU, SIOCSIFFLAGS, IFF_UP = 0x8916, 0x891C, 0x8922, 0x8914, 1
# Large packets are few.
MTU = 60000


def host(rank):
    return f"10.77.0.{rank + 1}"


def unshare(flags):
    if ctypes.CDLL(None, use_errno=True).unshare(flags) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def become_root():
    """In a user namespace, where we are not root."""
    user, group = os.getuid(), os.getgid()
    if user == 0:
        return
    unshare(CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def address_request(name, address):
    return struct.pack("16sHH4s8x", name, socket.AF_INET, 0, socket.inet_aton(address))


def open_side(rank):
    """Moves this process to a network of its own, with one device; what is sent there is read from the result."""
    unshare(CLONE_NEWNET)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    name = b"link"
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name, IFF_TUN | IFF_NO_PI))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFADDR, address_request(name, host(rank)))
        fcntl.ioctl(control, SIOCSIFNETMASK, address_request(name, "255.255.255.0"))
        fcntl.ioctl(control, SIOCSIFMTU, struct.pack("16si12x", name, MTU))
        for interface in (name, b"lo"):
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", interface, IFF_UP))
    return device


def run_side(rank, port, command, channel):
    """The life of a child: opens its side, hands the device over, and runs the replica."""
    try:
        device = open_side(rank)
    except OSError as error:
        print(f"slow_link: {error}", file=sys.stderr)
        return 77
    channel.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [device]))])
    os.close(device)
    channel.recv(1)
    variables = {"ADAPTDL_NUM_REPLICAS": "2", "ADAPTDL_NUM_NODES": "2", "ADAPTDL_REPLICA_RANK": str(rank),
                 "ADAPTDL_MASTER_ADDR": host(0), "ADAPTDL_MASTER_PORT": str(port), "ADAPTDL_REPLICA_HOST": host(rank)}
    return subprocess.run(command, env=os.environ | variables, check=False).returncode


def start_side(rank, port, command):
    ours, theirs = socket.socketpair()
    process = os.fork()
    if process == 0:
        ours.close()
        os._exit(run_side(rank, port, command, theirs) & 255)
    theirs.close()
    _, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_LEN(4))
    device = array.array("i", ancillary[0][2])[0] if ancillary else None
    return process, ours, device


def carry(devices, processes, delay):
    """Until the replicas have ended; their exit codes."""
    other = {devices[0]: devices[1], devices[1]: devices[0]}
    on_the_way = collections.deque()
    codes = {}
    while len(codes) < len(processes):
        now = time.monotonic()
        while on_the_way and on_the_way[0][0] <= now:
            _, device, packet = on_the_way.popleft()
            try:
                os.write(device, packet)
            except OSError:
                pass  # A packet for a side that is gone is lost, as it would be on a network.
        wait = on_the_way[0][0] - now if on_the_way else 0.2
        for device in select.select(devices, [], [], max(wait, 0))[0]:
            try:
                while True:
                    on_the_way.append((time.monotonic() + delay, other[device], os.read(device, 65536)))
            except BlockingIOError:
                pass
        if not on_the_way or len(codes) > 0:
            for process in processes:
                if process not in codes:
                    ended, status = os.waitpid(process, os.WNOHANG)
                    if ended:
                        codes[process] = os.waitstatus_to_exitcode(status)
    return list(codes.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=5, help="each way")
    parser.add_argument("--port", type=int, default=29500)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    try:
        become_root()
    except OSError as error:
        print(f"slow_link: {error}", file=sys.stderr)
        return 77
    sides = [start_side(rank, arguments.port, arguments.command) for rank in range(2)]
    if any(device is None for _, _, device in sides):
        for _, channel, _ in sides:
            channel.close()
        for process, _, _ in sides:
            os.waitpid(process, 0)
        return 77
    for _, channel, _ in sides:
        channel.send(b"x")
    codes = carry([device for _, _, device in sides], [process for process, _, _ in sides],
                  arguments.delay_ms / 1000)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
