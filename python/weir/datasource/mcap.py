"""MCAP files, in which robots keep what they were told and when: a row a message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weir.datasource.other_files import _Plain, need

ROWS = 4096  # messages that go into one batch


@dataclass
class TimeRange:
    """From `start_time` on and before `end_time`, in nanoseconds.

    >>> TimeRange(5, 3)
    Traceback (most recent call last):
    ...
    ValueError: start_time (5) must be less than end_time (3)
    """

    start_time: int
    end_time: int

    def __post_init__(self) -> None:
        if self.start_time >= self.end_time:
            raise ValueError(f"start_time ({self.start_time}) must be less than end_time ({self.end_time})")
        if self.start_time < 0 or self.end_time < 0:
            raise ValueError(f"time values must be non-negative, got start_time={self.start_time}, end_time={self.end_time}")


class MCAPDatasource(_Plain):
    """Messages in the order of their log time. Those in JSON are decoded; others stay bytes. Needs the package mcap.

    >>> import weir
    >>> ds = weir.read_datasource(MCAPDatasource("drive.mcap", topics={"/camera"}))  # doctest: +SKIP
    """

    _FILE_EXTENSIONS = ["mcap"]

    def __init__(
        self,
        paths: str | list[str],
        topics: Any = None,
        time_range: TimeRange | None = None,
        message_types: Any = None,
        include_metadata: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(paths, **kwargs)
        need("mcap", "read_mcap")
        self._topics = sorted(set(topics)) if topics else None
        self._time_range = time_range
        self._message_types = set(message_types) if message_types else None
        self._include_metadata = include_metadata

    def get_name(self) -> str:
        """Of the operator."""
        return "MCAP"

    def _read_stream(self, f: Any, path: str) -> Iterator[Any]:
        from mcap.reader import make_reader

        from weir._weir import batch_from_rows

        span = self._time_range
        messages = make_reader(f).iter_messages(
            topics=self._topics, start_time=span.start_time if span else None, end_time=span.end_time if span else None
        )
        rows: list[dict[str, Any]] = []
        for schema, channel, message in messages:
            if self._message_types and schema is not None and schema.name not in self._message_types:
                continue
            rows.append(self._row(schema, channel, message))
            if len(rows) == ROWS:
                yield batch_from_rows(rows)
                rows = []
        if rows:
            yield batch_from_rows(rows)

    def _row(self, schema: Any, channel: Any, message: Any) -> dict[str, Any]:
        data = message.data
        if channel.message_encoding == "json":
            try:
                data = json.loads(data)
            except ValueError:  # also of bytes that are no text
                pass
        row = {
            "data": data,
            "topic": channel.topic,
            "log_time": message.log_time,
            "publish_time": message.publish_time,
            "sequence": message.sequence,
        }
        if self._include_metadata:
            row["channel_id"] = message.channel_id
            row["message_encoding"] = channel.message_encoding
            row["schema_name"] = schema.name if schema is not None else None
            row["schema_encoding"] = schema.encoding if schema is not None else None
            row["schema_data"] = schema.data if schema is not None else None
        return row
