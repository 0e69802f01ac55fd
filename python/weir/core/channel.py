"""Messages with descriptors between processes of one user on one machine.

    server:  Server(handler) ─▶ .address ─────────── a text, which goes to the other process by any way
    client:  connect(address) ─▶ Connection          Connection.send(message, fds) / recv() ─▶ (message, fds)

A stream socket lies in a folder that only this user may enter; whoever connects must be the same user and know the token in
the address. A message is

    0          4          8
    ┌──────────┬──────────┬──────────────┐      descriptors travel with the first byte, FDS_MAX at most in one piece: what is
    │size, u32 │fds, u32  │bytes …       │      beyond goes before it, in pieces whose size is ONLY_FDS
    └──────────┴──────────┴──────────────┘

Threads: send and recv are each for any number of threads, one at a time inside. post, flush and take never wait; they are for
one thread with a selector, and its lock.
"""
from __future__ import annotations

import _socket
import os
import select
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence

DESCRIPTORS = 1 << 16
FDS_MAX = 250           # in one piece; the kernel takes 253
ONLY_FDS = 0xFFFFFFFF
MESSAGE_MAX = 1 << 31
READ_BYTES = 1 << 16
HANDSHAKE_S = 10.0
BACKLOG = 128
PATH_MAX = 100          # the kernel takes 107 bytes
WELCOME = b"weir1"

_HEAD = struct.Struct("<II")
_ROOM = _socket.CMSG_SPACE(4 * 253)


class Closed(EOFError):
    """The other end is gone.

    >>> issubclass(Closed, EOFError)
    True
    """


class Connection:
    """One end of a stream of messages.

    >>> a, b = pair()
    >>> a.send(b"hello")
    >>> b.recv()
    (b'hello', [])
    >>> a.close(); b.close()
    """

    def __init__(self, sock: _socket.socket) -> None:
        self._socket = sock
        self._sending = threading.Lock()
        self._receiving = threading.Lock()
        self._bytes = bytearray()
        self._fds: deque[int] = deque()
        self._outbox: deque[tuple[memoryview, list[int]]] = deque()

    def fileno(self) -> int:
        """Of the socket; −1 when closed."""
        return self._socket.fileno()

    # ---- waiting ----

    def send(self, message: bytes, fds: Sequence[int] = ()) -> None:
        """Returns when the kernel has it all. The descriptors stay the caller's. Closed: the other end is gone."""
        with self._sending:
            for data, pieces in _framed(message, fds):
                try:
                    done = self._socket.sendmsg([data], _rights(pieces), _socket.MSG_NOSIGNAL)
                    while done < len(data):
                        data = data[done:]
                        done = self._socket.send(data, _socket.MSG_NOSIGNAL)
                except OSError as error:
                    raise Closed(f"the other end is gone: {error.strerror}") from None

    def recv(self) -> tuple[bytes, list[int]]:
        """The next message; its descriptors are the caller's to close. Closed: the other end is gone."""
        with self._receiving:
            while True:
                message = self._next()
                if message is not None:
                    return message
                try:
                    self._read(_socket.MSG_DONTWAIT)
                except BlockingIOError:
                    self.rest()

    def rest(self) -> None:
        """Until there is something to be read. An exception that a signal raises here loses nothing."""
        number = self._socket.fileno()
        if number >= 0:  # else the next read says that it is closed
            readable = select.poll()
            readable.register(number, select.POLLIN)
            readable.poll()

    # ---- never waiting ----

    def post(self, message: bytes, fds: Sequence[int] = ()) -> bool:
        """Sends what can be sent now, and keeps the rest for flush, with copies of its descriptors. False: some is kept."""
        for data, pieces in _framed(message, fds):
            if not self._outbox:
                try:
                    done = self._socket.sendmsg([data], _rights(pieces), _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT)
                except BlockingIOError:
                    done = 0
                except OSError as error:
                    raise Closed(f"the other end is gone: {error.strerror}") from None
                if done == len(data):
                    continue
                if done:
                    data, pieces = data[done:], ()
            self._outbox.append((data, [os.dup(fd) for fd in pieces]))
        return not self._outbox

    def flush(self) -> bool:
        """Sends what post has kept, as far as it goes. True: nothing is left."""
        while self._outbox:
            data, pieces = self._outbox[0]
            try:
                done = self._socket.sendmsg([data], _rights(pieces), _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except OSError as error:
                raise Closed(f"the other end is gone: {error.strerror}") from None
            _close_all(pieces)
            if done < len(data):
                self._outbox[0] = (data[done:], [])
            else:
                self._outbox.popleft()
        return True

    def take(self) -> list[tuple[bytes, list[int]]]:
        """The messages that are there. Closed: the other end is gone and all that it said was taken."""
        try:
            self._read(_socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass  # recv may have read more than the message that it gave
        messages = []
        while (message := self._next()) is not None:
            messages.append(message)
        return messages

    # ---- both ----

    def _read(self, flags: int) -> None:
        wanted = READ_BYTES
        if len(self._bytes) >= 8:
            wanted = max(wanted, _HEAD.unpack_from(self._bytes)[0] + 8 - len(self._bytes))
        try:
            data, ancillary, _, _ = self._socket.recvmsg(min(wanted, 1 << 22), _ROOM, flags | _socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            raise
        except OSError as error:
            raise Closed(f"the other end is gone: {error.strerror}") from None
        for level, kind, words in ancillary:
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                self._fds.extend(struct.unpack(f"{len(words) // 4}i", words[:len(words) // 4 * 4]))
        if not data:
            raise Closed("the other end is gone")
        self._bytes += data

    def _next(self) -> tuple[bytes, list[int]] | None:
        held = self._bytes
        while len(held) >= 8:
            size, count = _HEAD.unpack_from(held)
            if size == ONLY_FDS:
                del held[:8]
                continue
            if size > MESSAGE_MAX:
                raise Closed(f"the other end speaks of a message of {size} bytes")
            if len(held) < 8 + size:
                return None
            if count > len(self._fds):
                raise Closed("the other end speaks of descriptors that it has not sent")
            message = bytes(memoryview(held)[8:8 + size])
            del held[:8 + size]
            return message, [self._fds.popleft() for _ in range(count)]
        return None

    def close(self) -> None:
        """Closes the socket, and descriptors that nobody has taken. May be called twice."""
        try:
            self._socket.shutdown(_socket.SHUT_RDWR)  # wakes a thread that waits in recv
        except OSError:
            pass
        self._socket.close()
        while self._fds:
            os.close(self._fds.popleft())
        while self._outbox:
            _close_all(self._outbox.popleft()[1])

    def close_quietly(self) -> None:
        """Closes this process's descriptor only: another process has the same socket and goes on with it."""
        self._socket.close()

    def peer(self) -> tuple[int, int]:
        """The other end's process and user, as the kernel knows them since it connected."""
        words = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        pid, uid, _ = struct.unpack("3i", words)
        return pid, uid


def _framed(message: bytes, fds: Sequence[int]) -> list[tuple[memoryview, Sequence[int]]]:
    if len(message) > MESSAGE_MAX:
        raise ValueError(f"a message of {len(message)} bytes: large data goes in descriptors")
    pieces = []
    rest = fds
    while len(rest) > FDS_MAX:
        pieces.append((memoryview(_HEAD.pack(ONLY_FDS, 0)), rest[:FDS_MAX]))
        rest = rest[FDS_MAX:]
    pieces.append((memoryview(_HEAD.pack(len(message), len(fds)) + message), rest))
    return pieces


def _rights(fds: Sequence[int]) -> list[tuple[int, int, bytes]]:
    return [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


def pair() -> tuple[Connection, Connection]:
    """Two ends of one stream.

    >>> a, b = pair()
    >>> b.send(b"x"); a.recv()[0]
    b'x'
    """
    a, b = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    return Connection(a), Connection(b)


def more_descriptors() -> None:
    """Lets this process have more than the usual 1024: every object with memory of its own needs one, every view of it another."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connect(address: str) -> Connection:
    """A connection to a Server of this user. ConnectionError: there is none any more, or it does not want this process.

    >>> server = Server(lambda connection: connection.send(b"hello"))
    >>> connect(server.address).recv()
    (b'hello', [])
    >>> server.close()
    """
    path, _, token = address.rpartition("#")
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    sock.settimeout(HANDSHAKE_S)
    connection = Connection(sock)
    try:
        sock.connect(path)
        connection.send(bytes.fromhex(token))
        answer, _ = connection.recv()
    except (OSError, EOFError) as error:
        connection.close()
        raise ConnectionError(f"the session that this belongs to cannot be reached, it may have ended ({error})") from None
    if answer != WELCOME:
        connection.close()
        raise ConnectionError("the session that this belongs to is of another version of weir")
    sock.settimeout(None)
    return connection


class Server:
    """Listens in this process's folder. `handler` is called with each Connection, in a thread of its own; when it returns,
    the connection is closed, unless it returns True. All ends with the session, or with close().

    >>> server = Server(lambda connection: connection.send(connection.recv()[0].upper()))
    >>> connection = connect(server.address)
    >>> connection.send(b"hello"); connection.recv()
    (b'HELLO', [])
    >>> server.close()
    """

    def __init__(self, handler: Callable[[Connection], bool | None]) -> None:
        from weir import _session

        self._handler = handler
        self._pid = os.getpid()
        self._token = os.urandom(16)
        self._path = os.path.join(folder(), os.urandom(4).hex())
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._is_closed = False
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        self._socket.bind(self._path)
        self._socket.listen(BACKLOG)
        self.address = f"{self._path}#{self._token.hex()}"
        threading.Thread(target=self._accept, name="weir-server", daemon=True).start()
        _session.at_shutdown(self.close)

    def _accept(self) -> None:
        while True:
            try:
                fd, _ = self._socket._accept()  # type: ignore[attr-defined]
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(fd,), name="weir-connection", daemon=True).start()

    def _serve(self, fd: int) -> None:
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)
        connection = Connection(sock)
        with self._lock:
            if self._is_closed:
                connection.close()
                return
            self._connections.add(connection)
        is_kept = False
        try:
            if self._is_welcome(connection, sock):
                is_kept = self._handler(connection) is True
        except EOFError:  # the other end went away: nobody is left to be told
            pass
        finally:
            with self._lock:
                self._connections.discard(connection)
            if not is_kept:
                connection.close()

    def _is_welcome(self, connection: Connection, sock: _socket.socket) -> bool:
        import hmac

        if connection.peer()[1] != os.getuid():
            return False
        sock.settimeout(HANDSHAKE_S)
        token, fds = connection.recv()  # too late is Closed
        _close_all(fds)
        if not hmac.compare_digest(token, self._token):
            return False
        sock.settimeout(None)
        connection.send(WELCOME)
        return True

    def close(self) -> None:
        """No more connections, and those there are end. May be called twice, and does nothing in a forked child."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            connections = list(self._connections)
        try:
            self._socket.shutdown(_socket.SHUT_RDWR)  # wakes the thread that accepts
        except OSError:
            pass
        self._socket.close()
        for connection in connections:
            connection.close()
        try:
            os.unlink(self._path)
        except OSError:  # the folder was cleared by somebody
            pass


# ---- the folder ----

_folder: tuple[int, str] | None = None
_folder_lock = threading.Lock()


def folder() -> str:
    """This process's own folder for sockets, for this user alone. It is removed when the process ends; folders of processes
    that were killed are removed by the next one.

    >>> import os, stat
    >>> stat.S_IMODE(os.stat(folder()).st_mode) == 0o700
    True
    """
    global _folder
    with _folder_lock:
        if _folder is None or _folder[0] != os.getpid():
            import atexit

            _folder = (os.getpid(), _make_folder())
            atexit.register(_remove_folder)
        return _folder[1]


def _make_folder() -> str:
    prefix = f"weir-{os.getuid()}-"
    for place in (os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("TMPDIR"), "/tmp"):
        if not place or len(os.fsencode(place)) > PATH_MAX - len(prefix) - 40:
            continue
        path = os.path.join(place, f"{prefix}{os.getpid()}-{os.urandom(6).hex()}")
        try:
            os.mkdir(path, 0o700)
        except OSError:
            continue
        _remove_stale(place, prefix)
        return path
    raise RuntimeError("no folder for sockets can be made: /tmp, TMPDIR and XDG_RUNTIME_DIR cannot be written")


def _remove_stale(place: str, prefix: str) -> None:
    for name in os.listdir(place):
        number = name[len(prefix):].partition("-")[0]
        if not name.startswith(prefix) or not number.isdecimal() or os.path.exists(f"/proc/{number}"):
            continue
        _remove(os.path.join(place, name))


def _remove(path: str) -> None:
    try:
        for name in os.listdir(path):
            os.unlink(os.path.join(path, name))
        os.rmdir(path)
    except OSError:  # another process is at it, too
        return


def _remove_folder() -> None:
    if _folder is not None and _folder[0] == os.getpid():
        _remove(_folder[1])


def _forget_in_child() -> None:
    global _folder_lock
    _folder_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_in_child)
