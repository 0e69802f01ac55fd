"""Builds limits.c, indexes the pages of a job's input, and runs the probe: what the time of a job is compared with."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import jobs

HERE = Path(__file__).resolve().parent
BUILT = jobs.ROOT / "built"


class Unavailable(Exception):
    """The probe cannot run; the text says why."""


def last_line(text):
    return (text.strip().splitlines() or ["no message"])[-1]


def build(name="limits"):
    """Compiles limits.c, or lines.c, once per version of its text."""
    source = HERE / f"{name}.c"
    mark = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    program = BUILT / f"{name}-{mark}"
    if not program.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        command = [os.environ.get("CC", "cc"), "-O2", "-std=gnu11", "-o", str(program), str(source)]
        try:
            subprocess.run(command + ["-lsnappy", "-lzstd", "-lpthread"], check=True, capture_output=True, text=True)
        except FileNotFoundError as e:
            raise Unavailable(f"no C compiler: {e}") from e
        except subprocess.CalledProcessError as e:
            raise Unavailable(f"{name}.c does not build: {last_line(e.stderr)}") from e
    return program


def index(job):
    """The page index of the job's input, one per dataset and set of columns; made again with the dataset."""
    columns = job.columns_read
    mark = hashlib.sha256(json.dumps([job.facts, columns]).encode()).hexdigest()[:12]
    path = BUILT / f"{job.dataset}-{mark}.pages"
    if not path.exists():
        codec = job.dataset.split("-")[1]
        part = path.with_suffix(".part")
        subprocess.run([sys.executable, HERE / "pages.py", part, job.folder, codec, *columns], check=True)
        part.rename(path)
    return path


def probe(job, threads, out_bytes):
    """{decompress_s, write_s, pages, decoded_bytes} for the job's input and so many bytes of output; of text the time in
    which its newlines are counted."""
    if job.input != "parquet":
        listed = BUILT / "files.txt"
        BUILT.mkdir(parents=True, exist_ok=True)
        listed.write_text("".join(f"{file}\n" for file in job.files))
        command = [build("lines"), str(threads), listed]
    else:
        command = [build(), index(job), str(threads), str(out_bytes), jobs.ROOT]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(last_line(done.stderr))
    return json.loads(done.stdout)
