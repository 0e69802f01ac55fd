"""weir.core.channel: messages and descriptors arrive whole and in order, from the right peers only, and nothing is left."""
import os
import select
import subprocess
import sys
import threading
import time

import pytest

import weir
from weir.core import channel


def until(what, seconds=10):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def echo(connection):
    while True:
        message, fds = connection.recv()
        connection.send(message, fds)
        for fd in fds:
            os.close(fd)


@pytest.fixture
def server():
    made = channel.Server(echo)
    yield made
    made.close()


@pytest.mark.parametrize("size", [0, 1, 8, 65535, 65536, 65537, 5_000_000])
def test_sizes(server, size):
    connection = channel.connect(server.address)
    data = os.urandom(size)
    threading.Thread(target=connection.send, args=(data,)).start()
    assert connection.recv() == (data, [])
    connection.close()


@pytest.mark.parametrize("count", [1, 3, 250, 251, 600])
def test_descriptors(server, count):
    connection = channel.connect(server.address)
    made = []
    for i in range(count):
        fd = os.memfd_create("x")
        os.write(fd, b"%d" % i)
        made.append(fd)
    connection.send(b"take these", made)
    connection.send(b"and go on")
    message, fds = connection.recv()
    assert message == b"take these" and [os.pread(fd, 10, 0) for fd in fds] == [b"%d" % i for i in range(count)]
    assert connection.recv() == (b"and go on", [])
    for fd in made + fds:
        os.close(fd)
    connection.close()


def test_threads_send_whole_messages(server):
    connection = channel.connect(server.address)
    words = [bytes([i]) * (i * 1000) for i in range(1, 9)]
    threads = [threading.Thread(target=lambda w=word: [connection.send(w) for _ in range(50)]) for word in words]
    for thread in threads:
        thread.start()
    got = sorted(connection.recv()[0] for _ in range(8 * 50))
    assert got == sorted(words * 50)
    connection.close()


def test_post_keeps_what_does_not_fit_and_its_descriptors():
    a, b = channel.pair()
    fd = os.memfd_create("x")
    os.write(fd, b"content")
    sent = 0
    while a.post(b"z" * 50_000):
        sent += 1
    a.post(b"last", [fd])
    os.close(fd)
    got = []
    while not got or got[-1][0] != b"last":
        got += b.take()
        a.flush()
    assert len(got) == sent + 2 and os.pread(got[-1][1][0], 10, 0) == b"content"
    os.close(got[-1][1][0])
    a.close()
    select.select([b], [], [], 10)
    with pytest.raises(channel.Closed):
        b.take()
    b.close()


def test_take_gives_what_recv_has_read_beyond_its_message():
    a, b = channel.pair()
    for word in (b"one", b"two", b"three"):
        a.post(word)
    assert b.recv()[0] == b"one"
    assert [word for word, _ in b.take()] == [b"two", b"three"] and b.take() == []
    a.close()
    b.close()


def test_a_wrong_token_is_not_served(server):
    path, _, token = server.address.rpartition("#")
    with pytest.raises(ConnectionError):
        channel.connect(path + "#" + "00" * (len(token) // 2))
    connection = channel.connect(server.address)
    connection.send(b"still there")
    assert connection.recv()[0] == b"still there"
    connection.close()


def test_another_user_is_not_served(server, monkeypatch):
    """Whoever came into the folder in spite of its mode, and with the right token."""
    peer = channel.Connection.peer
    monkeypatch.setattr(channel.Connection, "peer", lambda connection: (peer(connection)[0], os.getuid() + 1))
    with pytest.raises(ConnectionError):
        channel.connect(server.address)
    monkeypatch.undo()
    channel.connect(server.address).close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_is_seen_by_the_system(server):
    path, _, _ = server.address.rpartition("#")
    os.chmod(os.path.dirname(path), 0o711)
    os.chmod(path, 0o777)
    program = f"""
from weir.core import channel
import os
os.setuid(65534)
try:
    channel.connect({server.address!r})
except ConnectionError:
    print("not served")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd="/")
    os.chmod(os.path.dirname(path), 0o700)
    assert done.stdout == "not served\n", done.stderr


def test_nobody_there():
    server = channel.Server(echo)
    connection = channel.connect(server.address)
    server.close()
    server.close()
    with pytest.raises(EOFError):
        connection.recv()
    with pytest.raises(ConnectionError, match="may have ended"):
        channel.connect(server.address)


def test_shutdown_closes_servers():
    weir.shutdown()
    server = channel.Server(echo)
    path = server.address.rpartition("#")[0]
    assert os.path.exists(path) and os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
    weir.shutdown()
    assert not os.path.exists(path)


PROGRAM = """
import os, sys, time
from weir.core import channel
server = channel.Server(lambda c: c.send(b"hello"))
print(server.address, flush=True)
sys.stdin.read()
"""


def test_the_folder_goes_with_the_process_and_a_killed_ones_with_the_next(tmp_path):
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)} if len(str(tmp_path)) < 50 else dict(os.environ)

    def start():
        program = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)
        return program, program.stdout.readline().strip()

    killed, address = start()
    assert channel.connect(address).recv() == (b"hello", [])
    left = os.path.dirname(address)
    killed.kill()
    killed.wait()
    assert os.path.isdir(left)
    polite, address = start()
    assert not os.path.isdir(left)
    polite.communicate("", timeout=20)
    assert not os.path.isdir(os.path.dirname(address))
