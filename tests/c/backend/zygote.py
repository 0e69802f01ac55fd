"""The same as test_zygote.c, in Python: forks, and in the child becomes the test worker.   zygote.py WORKER"""
import fcntl
import os
import selectors
import signal
import socket
import struct
import sys

MAGIC = int.from_bytes(b"wzyg", "little")
FORK, FORKED, ENDED = 1, 2, 3


def become_worker(path, fds):
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in fds]
    for fd, number in zip(high, (3, 4, 1, 2)):
        os.dup2(fd, number, inheritable=True)
    fcntl.fcntl(4, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(4, 10, signal.SIGKILL)  # F_SETSIG
    fcntl.fcntl(4, fcntl.F_SETFL, fcntl.fcntl(4, fcntl.F_GETFL) | os.O_ASYNC)
    os.closerange(5, 256)
    os.execv(path, [path])


def main():
    control = socket.socket(fileno=3)
    wake_in, wake_out = os.pipe()
    os.set_blocking(wake_out, False)
    os.set_blocking(wake_in, False)
    signal.set_wakeup_fd(wake_out)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    selector.register(wake_in, selectors.EVENT_READ)
    while True:
        ready = {key.fd for key, _ in selector.select()}
        if wake_in in ready:
            os.read(wake_in, 4096)
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if info is None:
                break
            status = info.si_status << 8 if info.si_code == os.CLD_EXITED else info.si_status
            control.send(struct.pack("<4I", MAGIC, ENDED, info.si_pid, status))
            os.waitpid(info.si_pid, 0)
        if 3 not in ready:
            continue
        data, fds, _, _ = socket.recv_fds(control, 64, 4)
        if not data:
            return
        magic, kind, request = struct.unpack("<3I", data)
        assert (magic, kind, len(fds)) == (MAGIC, FORK, 4)
        pid = os.fork()
        if pid == 0:
            become_worker(sys.argv[1], fds)
        for fd in fds:
            os.close(fd)
        control.send(struct.pack("<4I", MAGIC, FORKED, request, pid))


main()
