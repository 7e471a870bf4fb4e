"""What goes over streams between a client and a pod: connections to its ports, and programs that run in its containers. As kubelets have it:
`portforward.k8s.io`, and version 4 of `channel.k8s.io`."""

import json
import socket
import threading

PORT_FORWARD = "portforward.k8s.io"
EXEC = "v4.channel.k8s.io"
# What streams of a program are called in a request for them.
FLAGS = {"input": "stdin", "output": "stdout", "error": "stderr"}


def _pump(read, write, close):
    try:
        while data := read(1 << 16):
            write(data)
    except OSError:
        pass  # the other side is gone, of which its own end tells
    close()


def _in_background(*arguments):
    thread = threading.Thread(target=_pump, args=arguments, daemon=True)
    thread.start()
    return thread


class PortForward:
    """Connections to the ports of a pod, each by two streams: what is said, and what went wrong."""

    def __init__(self, ip):
        self._ip = ip
        self._errors = {}

    def opened(self, stream):
        request = stream.headers["requestid"]
        if stream.headers["streamtype"] == "error":
            self._errors[request] = stream
        else:
            threading.Thread(target=self._forward,
                             args=(stream, self._errors.pop(request)),
                             daemon=True).start()

    def _forward(self, stream, errors):
        port = int(stream.headers["port"])
        try:
            connection = socket.create_connection((self._ip, port))
        except OSError as error:
            errors.write(f"failed to connect to port {port} of the pod: {error}".encode())
            errors.close()
            stream.close()
            return
        with connection:
            back = _in_background(connection.recv, stream.write, stream.close)
            _pump(lambda _: stream.read(), connection.sendall, lambda: self._no_more_to(connection))
            back.join()
        errors.close()

    @staticmethod
    def _no_more_to(connection):
        try:
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has gone by itself


class Exec:
    """One program. It begins when the client has opened all streams that it wants (`names`, and `error` for how it ended), and, as with
    kubelets, does not end with the connection."""

    def __init__(self, names, start):
        """`start`: returns the process, a Popen with pipes."""
        self._awaited = {*names, "error"}
        self._start = start
        self._streams = {}

    def opened(self, stream):
        self._streams[stream.headers["streamtype"]] = stream
        if self._awaited == set(self._streams):
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        process = self._start()
        if process is None:
            self._end({"metadata": {}, "status": "Failure", "message": "the container does not run"})
            return
        if "stdin" in self._streams:
            source = self._streams["stdin"]
            _in_background(lambda _: source.read(), lambda data: self._feed(process, data),
                           process.stdin.close)
        else:
            process.stdin.close()
        pumps = []
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            if name in self._streams:
                out = self._streams[name]
                pumps.append(_in_background(pipe.read1, out.write, lambda: None))
            else:
                pumps.append(_in_background(pipe.read1, lambda data: None, lambda: None))
        for pump in pumps:
            pump.join()
        self._end(self._status(process.wait()))

    def _end(self, status):
        self._streams["error"].write(json.dumps(status).encode())
        for stream in self._streams.values():
            stream.close()

    @staticmethod
    def _feed(process, data):
        process.stdin.write(data)
        process.stdin.flush()

    @staticmethod
    def _status(code):
        if not code:
            return {"metadata": {}, "status": "Success"}
        code = code if code > 0 else 128 - code
        return {
            "metadata": {},
            "status": "Failure",
            "reason": "NonZeroExitCode",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "details": {
                "causes": [{
                    "reason": "ExitCode",
                    "message": str(code)
                }]
            }
        }
