"""Programs on a terminal of their own: what they draw, what then stands there, and keys for them."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time


class Terminal:
    """A command on a terminal of its own, `columns` wide, controlled by it: what it draws, and keys for it."""

    def __init__(self, command, columns, **options):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.run = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                    preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **options)
        os.close(slave)
        self.text = ""

    def read(self):
        try:
            part = os.read(self.master, 65536)
        except OSError:  # the other end is closed
            part = b""
        self.text += part.decode(errors="replace")
        return bool(part)

    def read_until(self, wanted, seconds=30):
        deadline = time.monotonic() + seconds
        while not re.search(wanted, self.text):
            assert time.monotonic() < deadline and self.read(), self.text

    def end(self):
        while self.read():
            pass
        os.close(self.master)
        return self.run.wait(30)


def screen(text):
    """The lines that stand on an endless terminal after `text`, without empty ones."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[\d*[A-Za-z]|\r|\n|[^\r\n\x1b]+", text):
        if part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part.endswith("A") and part[0] == "\x1b":
            row = max(0, row - int(part[2:-1] or 1))
        elif part in ("\x1b[K", "\x1b[J"):
            lines[row] = lines[row][:column]
            if part == "\x1b[J":
                del lines[row + 1:]
        elif part[0] != "\x1b":
            line = lines[row].ljust(column)
            lines[row] = line[:column] + part + line[column + len(part):]
            column += len(part)
    return [line.rstrip() for line in lines if line.strip()]
