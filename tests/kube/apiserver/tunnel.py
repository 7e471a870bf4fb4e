"""Connections that become streams to a pod: `exec` and `portforward`. The server understands nothing of what goes over them."""

import select
import ssl

STREAMS = ("exec", "portforward")
# Of a request for streams, what concerns the kubelet.
_HEADERS = ("Connection", "Upgrade", "X-Stream-Protocol-Version")


def ask(kubelet, path, headers):
    """Its answer is the client's."""
    lines = [f"POST {path} HTTP/1.1", "Host: kubelet", "Content-Length: 0"]
    lines += [f"{name}: {value}" for name in _HEADERS for value in headers.get_all(name, ())]
    kubelet.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())


def join(one, other):
    """What one says is sent to the other, and the reverse, until either ends. On one thread: a connection with TLS is no two threads'."""
    peers = {one: other, other: one}
    while True:
        for source in select.select(list(peers), [], [])[0]:
            while True:
                data = source.recv(1 << 16)
                if not data:
                    return
                peers[source].sendall(data)
                if not (isinstance(source, ssl.SSLSocket) and source.pending()):
                    break
