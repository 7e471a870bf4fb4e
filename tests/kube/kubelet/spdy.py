"""The frames of SPDY/3.1 (draft-mbelshe-httpbis-spdy-00), as kubectl and kubelets use them: streams that the client opens, without flow
control, which its library has not."""

import queue
import struct
import threading
import zlib

# What both ends take for having been said before: names and values of headers (2.6.10.1).
_NAMES = (
    "options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|accept-ranges|age|allow"
    "|authorization|cache-control|connection|content-base|content-encoding|content-language|content-length|content-lo"
    "cation|content-md5|content-range|content-type|date|etag|expect|expires|from|host|if-match|if-modified-since|if-n"
    "one-match|if-range|if-unmodified-since|last-modified|location|max-forwards|pragma|proxy-authenticate|proxy-autho"
    "rization|range|referer|retry-after|server|te|trailer|transfer-encoding|upgrade|user-agent|vary|via|warning|www-a"
    "uthenticate|method|get|status|200 OK|version|HTTP/1.1|url|public|set-cookie|keep-alive|origin")
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    "Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 Inter"
    "nal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00"
    ":00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,applic"
    "ation/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1"
    ",utf-,*,enq=0.")
DICTIONARY = b"".join(struct.pack(">I", len(name)) + name.encode() for name in _NAMES.split("|")) + _TEXT.encode()

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
_VERSION = 0x8003
# Of a frame: no client that we know sends more.
_MOST = 1 << 20


class Broken(Exception):
    """What came is no SPDY."""


class Stream:
    """One that the client has opened. One thread reads, any thread writes."""

    def __init__(self, session, number, headers):
        self._session, self.number, self.headers = session, number, headers
        self._incoming = queue.SimpleQueue()
        self._is_over = False

    def read(self):
        """What came next; b"": the client has ended its side."""
        if self._is_over:
            return b""
        data = self._incoming.get()
        self._is_over = not data
        return data

    def write(self, data):
        self._session.send_data(self.number, 0, data)

    def close(self):
        """This side has ended."""
        self._session.send_data(self.number, _FIN, b"")

    def take(self, data):
        self._incoming.put(data)


class Session:
    """A connection that has been upgraded. `opened(stream)` is called on the thread that serves."""

    def __init__(self, source, sink, opened):
        self._source, self._sink, self._opened = source, sink, opened
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._lock = threading.Lock()
        self._streams = {}

    def serve(self):
        """Until the client goes."""
        try:
            while frame := self._read_frame():
                self._take(*frame)
        finally:
            for stream in self._streams.values():
                stream.take(b"")

    def send_data(self, number, flags, data):
        for begin in range(0, len(data) or 1, 1 << 15):
            part = data[begin:begin + (1 << 15)]
            self._send(struct.pack(">II", number, flags << 24 | len(part)) + part)

    def _send(self, frame):
        with self._lock:
            self._send_locked(frame)

    def _send_locked(self, frame):
        try:
            self._sink.write(frame)
            self._sink.flush()
        except (OSError, ValueError):
            pass  # the client has gone, or just before and the sink is closed; whoever reads learns of it

    def _control(self, kind, body):
        self._send(struct.pack(">HHI", _VERSION, kind, len(body)) + body)

    def _read_frame(self):
        head = self._source.read(8)
        if len(head) < 8:
            return None
        word, length = struct.unpack(">II", head)
        flags, length = length >> 24, length & 0xFFFFFF
        if length > _MOST:
            raise Broken(f"a frame of {length} bytes")
        return word, flags, self._source.read(length)

    def _take(self, word, flags, body):
        if not word >> 31:
            number = word
            if body and number in self._streams:
                self._streams[number].take(body)
        elif word >> 16 != _VERSION:
            raise Broken(f"version {word >> 16 & 0x7FFF}")
        else:
            number = self._take_control(word & 0xFFFF, body)
        if flags & _FIN and number in self._streams:
            self._streams[number].take(b"")

    def _take_control(self, kind, body):
        """The number of the stream that it is about, or 0."""
        if kind == _PING:
            self._control(_PING, body)
        if kind not in (_SYN_STREAM, _RST_STREAM):
            return 0
        number = struct.unpack(">I", body[:4])[0]
        if kind == _SYN_STREAM:
            stream = Stream(self, number, self._headers(body[10:]))
            self._streams[number] = stream
            with self._lock:
                reply = struct.pack(">I", number) + self._deflated(struct.pack(">I", 0))
                self._send_locked(struct.pack(">HHI", _VERSION, _SYN_REPLY, len(reply)) + reply)
            self._opened(stream)
        elif number in self._streams:
            self._streams[number].take(b"")
        return number

    def _deflated(self, block):
        return self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def _headers(self, block):
        data = self._inflate.decompress(block, _MOST)
        count, place, texts = struct.unpack(">I", data[:4])[0], 4, []
        for _ in range(2 * count):
            length = struct.unpack(">I", data[place:place + 4])[0]
            texts.append(data[place + 4:place + 4 + length].decode())
            place += 4 + length
        return dict(zip(texts[::2], texts[1::2]))
