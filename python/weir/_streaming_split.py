"""streaming_split: one run, several consumers, in threads of this process or in other processes.

    run ─▶ producer thread ─ cut each batch in equal pieces ─▶ queue of split 0 ─▶ consumer in this process: the batch itself
                                                            └▶ queue of split 1 ─▶ connection ─ place in the store ─▶ a process

The Coordinator lives in the process that called streaming_split. Pickling a SplitIterator (or forking) opens its socket; what
is unpickled elsewhere speaks to it by that:

    asks  {"do": "start"}            waits until all splits have asked, answers with the epoch's number
          {"do": "next", "epoch": e} answers with places in shared memory (none: the end), and the descriptors that go with them
          {"do": "leave"}            the rest of the epoch is not wanted
          {"do": "schema"}, {"do": "stats"}

Questions are JSON, answers pickles: the driver unpickles nothing that a consumer sent. With each batch goes the writing end of a
pipe, which the consumer's process closes with the last view of the batch: then its memory is free here.

Epochs. Each epoch is a run of its own, divided among those who take part: all whose processes have not ended. An iterator that is
gone while its process lives (the argument of an actor's call) is waited for: the next call brings it back. Who leaves, leaves its share
of that epoch. Bounds: QUEUED_BYTES a split wait here, and what a consumer holds; the run itself waits when one queue is full, and, short of
memory, for what consumers at work will let go of (Run.at_work).

Threads: one lock, `_changed`, guards a Coordinator's fields; the producer and each connection have a thread of their own. The
lock is never held while a batch is made, copied or sent.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from weir import _progress, _run, _session
from weir._blocks import PINNED_BYTES, copied, lends_rows, split_large
from weir._loop import Holding, Waiting
from weir._plan import rules_of
from weir.iterator import DataIterator

if TYPE_CHECKING:
    from weir._loop import IterationTimes
    from weir._weir import Batch, Shared
    from weir.context import DataContext
    from weir.core.channel import Connection, Server
    from weir.dataset import Dataset, MaterializedDataset
    from weir.schema import Schema

QUEUED_BYTES = 16 << 20  # of a split, that nobody has taken yet,
QUEUED_PART = 16         # and of all splits this part of the limit: such a piece may keep the whole block that it is of
SENT_BYTES = 4 << 20  # of small pieces that go to a process at once
WAIT_WARNING_S = 30.0
QUIET_S = 2.0  # without anybody taking rows: then nobody is waited for
LOOK_S = 0.2  # how often a connection is looked at while its split waits

_log = logging.getLogger("weir")
_coordinators: weakref.WeakSet[Coordinator] = weakref.WeakSet()


class Asked:
    """One consumer's wait for the next epoch."""

    def __init__(self, is_alive: Callable[[], bool] | None = None) -> None:
        self.epoch: int | None = None  # when it has begun
        self.given_up = False
        self.is_alive = is_alive  # of a process that may end; None: in this one


class Coordinator:
    """Divides the rows of a Dataset among `n` consumers, epoch by epoch."""

    def __init__(self, dataset: Dataset, n: int, equal: bool) -> None:
        self.dataset = dataset
        self.n = n
        self.equal = equal
        self.lends = lends_rows(dataset._op) or _session.current().local_mode  # as Run.lends
        self.pid = os.getpid()
        self.address: str | None = None
        self._server: Server | None = None
        self._changed = threading.Condition()
        # Guarded by it:
        self._epoch = -1
        self._asked: dict[int, Asked] = {}
        self._connections = [0] * n
        self._ended_splits: set[int] = set()  # whose processes are gone; they come back by asking
        self._away: dict[int, int] = {}  # without a connection, while the process of the last one lives: its pidfd
        self._members: set[int] = set()  # of the epoch, that have not left it
        self._queues: list[deque[Batch]] = [deque() for _ in range(n)]
        self._bytes = [0] * n
        self._is_over = True
        self._error: BaseException | None = None
        self._run: _run.Run | None = None
        self._producer: threading.Thread | None = None
        self._waiting: set[int] = set()  # splits whose consumers wait for rows
        self._given = 0.0  # when rows were last given to one of them
        _coordinators.add(self)
        if _local_world() > 1 and n > 1:
            _log.warning(
                "streaming_split in a program that torchrun started: its %d splits are all read by this process and those that "
                "it gives them to. For one share of the rows a rank, use ds.shard(world_size, rank).", n
            )

    # ---- epochs ----

    def ask(self, split: int, asked: Asked) -> int:
        """Waits until everybody has asked; the number of the epoch. Given up: −1."""
        is_alive = asked.is_alive
        with self._changed:
            before = self._asked.get(split)
            if before is not None:
                if before.is_alive is None or before.is_alive():
                    raise ValueError(f"Invalid iterator: split {split} of a streaming_split is read by somebody else at the same time")
                before.given_up = True
            self._leave(split)
            self._ended_splits.discard(split)
            self._is_back(split)
            self._asked[split] = asked
            self._begin()
            begun, warned = time.monotonic(), False
            try:
                while asked.epoch is None and not asked.given_up:
                    left = WAIT_WARNING_S - (time.monotonic() - begun)
                    if left <= 0 and not warned:
                        warned = True
                        _log.warning(self._waiting_text(split))
                    self._changed.wait(LOOK_S if is_alive or self._away else 1.0 if warned else max(0.0, left))
                    self._look_for_the_ended()
                    if is_alive is not None and not is_alive():
                        asked.given_up = True
            finally:
                if asked.epoch is None and self._asked.get(split) is asked:
                    del self._asked[split]
        return -1 if asked.epoch is None else asked.epoch

    def _waiting_text(self, split: int) -> str:
        missing = [i for i in range(self.n) if i not in self._asked and i not in self._ended_splits]
        names = ", ".join(map(str, missing))
        text = (
            f"streaming_split: split {split} has waited for {WAIT_WARNING_S:g} s for epoch {self._epoch + 1} to begin: split"
            f"{'s' if len(missing) > 1 else ''} {names} of {self.n} {'have' if len(missing) > 1 else 'has'} not asked for it. "
            "All splits are read at the same time, each in a thread or process of its own."
        )
        if _local_world() > 1:
            text += " Programs that torchrun starts each run by themselves: use ds.shard(world_size, rank) there."
        return text

    def _begin(self) -> None:
        """Under the lock: starts the epoch if nobody is missing."""
        if not self._asked or len(self._asked.keys() | self._ended_splits) < self.n:
            return
        self._stop()
        self._epoch += 1
        self._members = set(self._asked)
        for split in range(self.n):
            self._clear(split)
        self._is_over, self._error = False, None
        self._given = time.monotonic()
        for asked in self._asked.values():
            asked.epoch = self._epoch
        self._asked = {}
        self._producer = threading.Thread(
            target=self._produce, args=(self._epoch, sorted(self._members)), name="weir-split", daemon=True
        )
        self._producer.start()
        self._changed.notify_all()

    def _stop(self) -> None:
        """Under the lock: nobody wants the rest of the epoch."""
        if self._run is not None:
            self._run.cancel()
        self._is_over = True
        self._changed.notify_all()

    def _clear(self, split: int) -> None:
        self._queues[split].clear()
        self._bytes[split] = 0

    # ---- the producer ----

    def _produce(self, epoch: int, members: list[int]) -> None:
        held: list[Batch] = []  # fewer rows than there are members
        holding: Holding | None = None
        error: BaseException | None = None
        try:
            run = self.dataset._new_run()
            run.asking = _progress.Asking()  # the program may print at any time
            with self._changed:
                if self._epoch != epoch or self._is_over:
                    return
                self.dataset._last_run = self._run = run
            bound = max(1 << 20, min(QUEUED_BYTES, run.build.state.native.memory_limit // (QUEUED_PART * self.n)))
            holding = Holding(run.build.state.native)
            for batch in run:
                # A large batch goes in parts; what waits of it for a slow consumer is copied, so that it does not keep all of it.
                is_large = self.n > 1 and batch.nbytes > PINNED_BYTES
                for part in split_large([batch], bound // 2 * len(members)) if is_large else [batch]:
                    held.append(part)
                    del part
                    rows = sum(b.num_rows for b in held)
                    each = rows // len(members)
                    if not each:
                        continue
                    *pieces, held = _cut(held, [each] * len(members) + [rows % len(members)])
                    if not self._put(epoch, members, pieces, bound, holding if is_large else None):
                        return
                    del pieces
                if is_large:
                    held = [copied(b) for b in held]
                del batch
            if held and not self.equal:
                rows = sum(b.num_rows for b in held)
                self._put(epoch, members, _cut(held, [1] * rows), bound, None)
        except BaseException as problem:
            error = problem
        finally:
            if holding is not None:
                holding.keep(0)
            with self._changed:
                if self._epoch == epoch:
                    if not self._is_over:
                        self._error = error
                    self._is_over = True
                    self._run = None
                    self._changed.notify_all()

    def _put(self, epoch: int, members: list[int], pieces: list[list[Batch]], bound: int, holding: Holding | None) -> bool:
        """False: nobody wants more. `holding`: what has to wait is copied, and told there."""
        with self._changed:
            while True:
                if self._epoch != epoch or self._is_over or not self._members:
                    return False
                if all(self._bytes[split] < bound for split in self._members):
                    break
                self._changed.wait()
            behind = [i for i, split in enumerate(members) if self._bytes[split]] if holding is not None else []
        for i in behind:
            pieces[i] = [copied(piece) for piece in pieces[i]]
        with self._changed:
            if self._epoch != epoch or self._is_over:
                return False
            for split, piece in zip(members, pieces):
                if split in self._members:
                    self._queues[split].extend(piece)
                    self._bytes[split] += sum(b.nbytes for b in piece)
            waiting = sum(self._bytes)
            self._changed.notify_all()
        if holding is not None:
            holding.keep(waiting)
        return True

    # ---- consumers ----

    def take(self, split: int, epoch: int, most: int = 1, is_alive: Callable[[], bool] | None = None) -> list[Batch]:
        """The next batches of a split, at most so many and not much more than SENT_BYTES; none at the end."""
        with self._changed:
            while True:
                if epoch != self._epoch:
                    raise ValueError("Invalid iterator: the dataset has moved on to another epoch.")
                if split not in self._members:
                    return []
                queue = self._queues[split]
                if queue:
                    break
                if self._error is not None:
                    raise self._error
                if self._is_over:
                    return []
                self._wait_for_rows(split, LOOK_S if is_alive else QUIET_S)
                if is_alive is not None and not is_alive():
                    return []
            taken: list[Batch] = []
            size = 0
            while queue and len(taken) < most and (not taken or size + queue[0].nbytes <= SENT_BYTES):
                batch = queue.popleft()
                size += batch.nbytes
                taken.append(batch)
            self._bytes[split] -= size
            self._given = time.monotonic()
            if self._run is not None:
                self._run.at_work(True)
            self._changed.notify_all()
            return taken

    def _wait_for_rows(self, split: int, most_s: float) -> None:
        """Under the lock. As long as others work with their rows the run waits for what they will let go of, rather than go beyond its
        budget; but whoever has taken nothing for QUIET_S may be waiting for this very split."""
        self._waiting.add(split)
        try:
            if self._run is not None:
                are_quiet = time.monotonic() - self._given >= QUIET_S
                self._run.at_work(not are_quiet and not self._waiting >= self._members)
            self._changed.wait(most_s)
        finally:
            self._waiting.discard(split)

    def leave(self, split: int, epoch: int, asked: Asked | None = None) -> None:
        """The split's consumer wants no more of this epoch."""
        with self._changed:
            if asked is not None:
                asked.given_up = True
                self._changed.notify_all()
            if epoch == self._epoch:
                self._leave(split)

    def _leave(self, split: int) -> None:
        if split in self._members:
            self._members.discard(split)
            self._clear(split)
            if not self._members:
                self._stop()
            self._changed.notify_all()

    def connected(self, split: int) -> None:
        """A process reads this split from now on."""
        with self._changed:
            self._connections[split] += 1

    def disconnected(self, split: int, epoch: int, process: int | None) -> None:
        """It has gone, maybe in the middle of an epoch. Nobody waits for it once its process has ended, too: `process` is its pidfd, consumed."""
        with self._changed:
            self._connections[split] -= 1
            if epoch == self._epoch:
                self._leave(split)
            if self._connections[split] or split in self._asked:
                if process is not None:
                    os.close(process)
            elif process is None:
                self._ended_splits.add(split)
                self._begin()
            else:
                self._is_back(split)
                self._away[split] = process
                self._look_for_the_ended()
                self._changed.notify_all()  # its process may still be ending: who waits looks again soon

    def _is_back(self, split: int) -> None:
        process = self._away.pop(split, None)
        if process is not None:
            os.close(process)

    def _look_for_the_ended(self) -> None:
        """Under the lock: those that are away and whose processes have ended are not waited for."""
        if not self._away:
            return
        poll = select.poll()
        for process in self._away.values():
            poll.register(process, select.POLLIN)
        over = {fd for fd, _ in poll.poll(0)}
        ended = [split for split, process in self._away.items() if process in over]
        for split in ended:
            self._is_back(split)
            self._ended_splits.add(split)
        if ended:
            self._begin()

    def batches(self, split: int, asked: Asked) -> Iterator[Batch]:
        """An epoch of a split in this process."""
        epoch = self.ask(split, asked)
        if epoch < 0:
            return
        try:
            while taken := self.take(split, epoch):
                yield from taken
        finally:
            self.leave(split, epoch)

    def forget(self, asked: Asked, split: int) -> None:
        """Ends a wait of `batches`, from any thread."""
        epoch = asked.epoch
        self.leave(split, -2 if epoch is None else epoch, asked)

    # ---- consumers in other processes ----

    def open(self) -> str:
        """The address of the socket, which is made now if there is none."""
        if self.address is None:
            from weir.core.channel import Server

            self._server = Server(self._serve)
            self.address = self._server.address
        return self.address

    def _serve(self, connection: Connection) -> None:
        first = json.loads(connection.recv()[0])
        Sender(self, int(first["split"]), connection).serve()

    def __repr__(self) -> str:
        return f"Coordinator({self.n} splits of {self.dataset._op.name})"


def _cut(batches: list[Batch], sizes: list[int]) -> list[list[Batch]]:
    """The rows of the batches in pieces of these sizes."""
    out: list[list[Batch]] = []
    number = at = 0
    for size in sizes:
        piece: list[Batch] = []
        while size:
            batch = batches[number]
            take = min(size, batch.num_rows - at)
            piece.append(batch if take == batch.num_rows else batch.slice(at, at + take))
            at += take
            size -= take
            if at == batch.num_rows:
                number, at = number + 1, 0
        out.append(piece)
    return out


def _local_world() -> int:
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    return int(text) if text.isdecimal() else 1


def _pidfd(pid: int) -> int | None:
    """A descriptor of a process, which can be read when it has ended; None: it has."""
    try:
        return os.pidfd_open(pid) if pid > 0 else None
    except OSError:
        return None


class Sender:
    """The driver's end of one consumer's connection."""

    def __init__(self, coordinator: Coordinator, split: int, connection: Connection) -> None:
        self.coordinator = coordinator
        self.split = split
        self.connection = connection
        self.lent: list[tuple[Shared, int]] = []  # what the consumer looks at, and the pipe that ends when it does not
        self.regions: set[int] = set()  # whose descriptors it has
        self.session = coordinator.dataset._new_run().build.state.native

    def serve(self) -> None:
        epoch = -1
        answer: Any
        process = _pidfd(self.connection.peer()[0])
        self.coordinator.connected(self.split)
        try:
            while True:
                question = json.loads(self.connection.recv()[0])
                try:
                    if question["do"] == "start":
                        answer = epoch = self.coordinator.ask(self.split, Asked(self._is_alive))
                    elif question["do"] == "next":
                        self._send(self.coordinator.take(self.split, question["epoch"], 64, self._is_alive))
                        continue
                    elif question["do"] == "schema":
                        schema = self.coordinator.dataset.schema()
                        self._send([] if schema is None or schema._batch is None else [schema._batch.slice(0, 0)])
                        continue
                    elif question["do"] == "stats":
                        answer = self.coordinator.dataset.stats()
                    else:
                        self.coordinator.leave(self.split, epoch)
                        answer = None
                except EOFError:
                    raise
                except BaseException as error:
                    self.connection.send(pickled_error(error))
                else:
                    self.connection.send(pickle.dumps(("ok", answer)))
        finally:
            self.coordinator.disconnected(self.split, epoch, process)
            for shared, pipe in self.lent:
                shared.close()
                os.close(pipe)
            self.lent = []

    def _is_alive(self) -> bool:
        poll = select.poll()
        poll.register(self.connection.fileno(), select.POLLRDHUP)
        return not poll.poll(0)

    def _give_back(self) -> None:
        """Frees what the consumer no longer looks at."""
        poll = select.poll()
        for _, pipe in self.lent:
            poll.register(pipe, 0)  # the hang-up is always told
        over = {fd for fd, _ in poll.poll(0)} if self.lent else set()
        kept = []
        for shared, pipe in self.lent:
            if pipe in over:
                shared.close()
                os.close(pipe)
            else:
                kept.append((shared, pipe))
        self.lent = kept

    def _send(self, batches: list[Batch]) -> None:
        from weir._weir import batch_share

        self._give_back()
        places, fds, own = [], [], []
        try:
            for batch in batches:
                shared = batch_share(self.session, batch)
                region, memfd, offset, size = shared.place()
                if region not in self.regions:
                    self.regions.add(region)
                    own.append(os.open(f"/proc/self/fd/{memfd}", os.O_RDONLY | os.O_CLOEXEC))  # it may read, not write
                    fds.append(own[-1])
                    places.append((region, -1, -1))
                reader, writer = os.pipe2(os.O_CLOEXEC)
                self.lent.append((shared, reader))
                own.append(writer)
                fds.append(writer)
                places.append((region, offset, size))
            self.connection.send(pickle.dumps(("batches", places)), fds)
        finally:
            for fd in own:
                os.close(fd)


def pickled_error(error: BaseException) -> bytes:
    """The answer that raises this at the other end."""
    import cloudpickle

    try:
        data = bytes(cloudpickle.dumps(("error", error)))
        pickle.loads(data)
        return data
    except Exception:  # an exception that cannot travel is told
        return pickle.dumps(("error", RuntimeError(f"{type(error).__name__}: {error}")))


class Receiver:
    """A consumer's end of its connection; of one process, which may be forked."""

    def __init__(self, address: str, hello: dict[str, int]) -> None:
        self.address = address
        self.hello = hello  # which split it wants
        self._lock = threading.Lock()
        self._pid = 0
        self._connection: Connection | None = None
        self._regions: dict[int, int] = {}

    def _connected(self) -> Connection:
        from weir.core.channel import connect

        if self._connection is None or self._pid != os.getpid():
            try:
                self._connection = connect(self.address)
            except ConnectionError as error:
                raise RuntimeError(
                    f"the process that runs this Dataset cannot be reached: {error}. Rows that are to outlive it must be written to files"
                ) from None
            self._pid = os.getpid()
            self._regions = {}
            self._connection.send(json.dumps(self.hello).encode())
        return self._connection

    def question(self, **words: Any) -> Any:
        """The answer: a value, or the batches that came. Raises what the driver raised."""
        with self._lock:
            connection = self._connected()
            try:
                connection.send(json.dumps(words).encode())
                message, fds = connection.recv()
            except EOFError:
                self._connection = None
                raise RuntimeError(
                    "the process that runs this Dataset has ended, or its session: its rows come from there"
                ) from None
            kind, answer = pickle.loads(message)
            if kind == "error":
                raise answer
            return answer if kind == "ok" else self._opened(answer, fds)

    def _opened(self, places: list[tuple[int, int, int]], fds: list[int]) -> list[Batch]:
        from weir._weir import batch_open

        batches = []
        for fd, (region, offset, size) in zip(fds, places, strict=True):
            if size < 0:
                self._regions[region] = fd
            else:
                batches.append(batch_open(self._regions[region], offset, size, fd))
        return batches

    def close(self) -> None:
        """Leaves: from any thread, also while another waits for an answer."""
        connection, self._connection = self._connection, None
        if connection is not None and self._pid == os.getpid():
            connection.close()

    def batches(self) -> Iterator[Batch]:
        """An epoch."""
        epoch = self.question(do="start")
        if epoch < 0:
            return
        over = False
        try:
            while taken := self.question(do="next", epoch=epoch):
                yield from taken
            over = True
        finally:
            if not over and self._connection is not None:
                self.question(do="leave")

    def __del__(self) -> None:
        if self._pid == os.getpid():
            self.close()
            for fd in self._regions.values():
                os.close(fd)


class SplitIterator(DataIterator):
    """One split of streaming_split. It pickles: in another process it gets its batches from here, in shared memory.

    >>> import weir
    >>> it, = weir.range(4).streaming_split(1)
    >>> [row["id"] for row in it.iter_rows()]
    [0, 1, 2, 3]
    """

    def __init__(self, coordinator: Coordinator, index: int) -> None:
        self._coordinator: Coordinator | None = coordinator
        self._receiver: Receiver | None = None
        self._output_split_idx = index
        self._world_size = coordinator.n
        self._context = coordinator.dataset.context
        self._text = ""

    @classmethod
    def _attached(cls, address: str, index: int, n: int, context: DataContext, text: str) -> SplitIterator:
        made = cls.__new__(cls)
        made._coordinator = None
        made._receiver = Receiver(address, {"split": index})
        made._output_split_idx = index
        made._world_size = n
        made._context = context
        made._text = text
        return made

    def __reduce__(self) -> Any:
        local = self._local()
        address = local.open() if local is not None else self._remote().address
        return SplitIterator._attached, (
            address, self._output_split_idx, self._world_size, self._context, repr(self),
        )

    def _local(self) -> Coordinator | None:
        """The coordinator, if it is in this process."""
        coordinator = self._coordinator
        return coordinator if coordinator is not None and coordinator.pid == os.getpid() else None

    def _remote(self) -> Receiver:
        if self._receiver is None:  # a forked child's
            assert self._coordinator is not None
            if self._coordinator.address is None:
                raise RuntimeError("this split belongs to the process that was forked, which has no socket: pickle it")
            self._receiver = Receiver(self._coordinator.address, {"split": self._output_split_idx})
        return self._receiver

    def _open(self, batch_rows: int, by_blocks: bool = False) -> tuple[Iterator[Batch], Waiting]:
        local = self._local()
        if local is None:
            receiver = self._remote()
            return receiver.batches(), Waiting(receiver.close)
        asked = Asked()
        return local.batches(self._output_split_idx, asked), Waiting(lambda: local.forget(asked, self._output_split_idx), local.lends)

    def _are_private(self) -> bool:
        # Elsewhere the pages are mapped privately; here pieces of one batch are in several hands.
        return self._local() is None

    def _holding(self) -> Holding:
        return super()._holding() if self._local() is not None else Holding(None)

    def _are_frames(self) -> bool:
        local = self._local()
        return local is not None and bool(rules_of(local.dataset._op))

    def _note_times(self) -> IterationTimes:
        from weir._loop import IterationTimes

        local = self._local()
        times = IterationTimes()
        if local is not None:
            local.dataset._iteration = times
        return times

    def world_size(self) -> int:
        """How many splits there are.

        >>> import weir
        >>> weir.range(4).streaming_split(2)[0].world_size()
        2
        """
        return self._world_size

    def materialize(self) -> MaterializedDataset:
        """An epoch's rows of this split, kept in this process.

        >>> import weir
        >>> it, = weir.range(4).streaming_split(1)
        >>> it.materialize().count()
        4
        """
        from weir._plan import Blocks
        from weir.dataset import MaterializedDataset

        blocks = list(self._batches(None)[0])
        return MaterializedDataset(Blocks("Split", blocks, _session.current().id), self._context)

    def schema(self) -> Schema | None:
        """The columns."""
        from weir.schema import Schema

        local = self._local()
        if local is not None:
            return local.dataset.schema()
        batches = self._remote().question(do="schema")
        return Schema(batches[0]) if batches else None

    def stats(self) -> str:
        """What the last run did, as text."""
        local = self._local()
        return local.dataset.stats() if local is not None else str(self._remote().question(do="stats"))

    def get_context(self) -> DataContext:
        """The settings of the Dataset."""
        return self._context

    def __repr__(self) -> str:
        local = self._local()
        if local is None:
            return self._text
        return f"StreamSplitDataIterator(split={self._output_split_idx} of {self._world_size}, {local.dataset!r})"


def _open_before_fork() -> None:
    """A child may use the splits of its parent: it finds the socket open."""
    for coordinator in list(_coordinators):
        if coordinator.pid == os.getpid():
            coordinator.open()


os.register_at_fork(before=_open_before_fork)
