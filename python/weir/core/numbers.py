"""The numbers of tasks, actors and the like as objects of classes, as programs compare and print them. ids.py makes them, as bytes."""
from __future__ import annotations

import os
from typing import Any, ClassVar, Self


class BaseID:
    """What they have in common."""

    __slots__ = ("_id",)
    BYTES: ClassVar[int]

    def __init__(self, id: bytes) -> None:
        if not isinstance(id, bytes):
            raise TypeError(f"{type(self).__name__} is made of bytes, not of {id!r}")
        if len(id) != self.BYTES:
            raise ValueError(f"{type(self).__name__} has {self.BYTES} bytes, not {len(id)}")
        self._id = id

    @classmethod
    def from_binary(cls, id_bytes: bytes) -> Self:
        """Of its bytes.

        >>> JobID.from_binary(bytes(4)) == JobID(bytes(4))
        True
        """
        return cls(id_bytes)

    @classmethod
    def from_hex(cls, hex_id: str) -> Self:
        """Of its text.

        >>> JobID.from_hex("01000000")
        JobID(01000000)
        """
        return cls(bytes.fromhex(hex_id))

    @classmethod
    def from_random(cls) -> Self:
        """A new one.

        >>> NodeID.from_random() == NodeID.from_random()
        False
        """
        return cls(os.urandom(cls.BYTES))

    @classmethod
    def nil(cls) -> Self:
        """The one of nothing.

        >>> JobID.nil()
        JobID(ffffffff)
        """
        return cls(b"\xff" * cls.BYTES)

    @classmethod
    def size(cls) -> int:
        """Its bytes.

        >>> TaskID.size(), ActorID.size()
        (24, 16)
        """
        return cls.BYTES

    def is_nil(self) -> bool:
        """Whether it is of nothing.

        >>> JobID.nil().is_nil()
        True
        """
        return self._id == b"\xff" * self.BYTES

    def binary(self) -> bytes:
        """As bytes.

        >>> JobID(bytes(4)).binary() == bytes(4)
        True
        """
        return self._id

    def hex(self) -> str:
        """As a text.

        >>> JobID(bytes(4)).hex()
        '00000000'
        """
        return self._id.hex()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._id == self._id

    def __hash__(self) -> int:
        return hash(self._id)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._id.hex()})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._id,)


class TaskID(BaseID):
    """The number of a task.

    >>> len(TaskID.nil().hex())
    48
    """

    __slots__ = ()
    BYTES = 24


class ActorID(BaseID):
    """The number of an actor.

    >>> len(ActorID.nil().hex())
    32
    """

    __slots__ = ()
    BYTES = 16


class PlacementGroupID(BaseID):
    """The number of a placement group.

    >>> len(PlacementGroupID.nil().hex())
    36
    """

    __slots__ = ()
    BYTES = 18


class JobID(BaseID):
    """The number of a job: a session is one.

    >>> len(JobID.nil().hex())
    8
    """

    __slots__ = ()
    BYTES = 4


class UniqueID(BaseID):
    """The number of anything else.

    >>> len(UniqueID.nil().hex())
    56
    """

    __slots__ = ()
    BYTES = 28


class NodeID(UniqueID):
    """The number of a node, of which there is one.

    >>> len(NodeID.nil().hex())
    56
    """

    __slots__ = ()


class WorkerID(UniqueID):
    """The number of a process.

    >>> len(WorkerID.nil().hex())
    56
    """

    __slots__ = ()
