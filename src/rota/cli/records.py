"""Reads the lines of a file of jobs in constant memory: JSON lines or CSV, bad lines included."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import msgspec

from rota.errors import ConfigError
from rota.values.names import shown

_BOM = b"\xef\xbb\xbf"
_SKIP = 1 << 16
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Row:
    """One line's arguments: fields by name, or an array's items."""

    number: int
    value: dict[str, object] | list[object]


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that makes no job, and why."""

    number: int
    reason: str


class Lines:
    """The physical lines of a stream, numbered from 1; none longer than `longest` bytes is held."""

    def __init__(self, stream: BinaryIO, longest: int) -> None:
        self.longest = longest
        self.number = 0
        self.bytes_read = 0
        self.cuts = 0
        """How many lines were longer than allowed, and cut; what followed was skipped."""
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        while raw := self._stream.readline(self.longest + 1):
            self.number += 1
            self.bytes_read += len(raw)
            if len(raw) > self.longest:
                self.cuts += 1
                if not raw.endswith(b"\n"):
                    self._skip()
            yield raw.removeprefix(_BOM) if self.number == 1 else raw

    def _skip(self) -> None:
        while more := self._stream.readline(_SKIP):
            self.bytes_read += len(more)
            if more.endswith(b"\n"):
                return


def read_json_lines(lines: Lines) -> Iterator[Row | BadLine]:
    """An object or an array per line; blank lines are skipped."""
    cuts = 0
    for raw in lines:
        if lines.cuts > cuts:
            cuts = lines.cuts
            yield BadLine(lines.number, _too_long(lines))
        elif raw.strip():
            yield _json_row(lines.number, raw)


def _json_row(number: int, raw: bytes) -> Row | BadLine:
    try:
        value = _decode(raw)
    except (msgspec.MsgspecError, ValueError) as error:
        return BadLine(number, f"{error}, given {shown(raw.strip())}")
    except RecursionError:
        return BadLine(number, "nested too deep")
    if not isinstance(value, dict | list):
        return BadLine(number, f"expected a JSON object or array, given {shown(value)}")
    return Row(number, value)


def read_csv(lines: Lines) -> Iterator[Row | BadLine]:
    """A row per record, its fields named by the first line; values stay text.

    Raises ConfigError where the first line does not name the fields; there are no rows where there
    is no line at all. Blank lines are skipped;
    a record that goes over several lines has the number of its first.
    """
    # A field as long as a line may be; the module's own limit is shorter.
    csv.field_size_limit(lines.longest + 1)
    reader = csv.reader(_texts(lines), strict=True)
    fields = _header(reader, lines)
    if not fields:
        return
    while True:
        number, cuts = lines.number + 1, lines.cuts
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield BadLine(number, f"not CSV: {error}")
            continue
        if lines.cuts > cuts:
            yield BadLine(number, _too_long(lines))
        elif record:
            yield _csv_row(number, fields, record)


def _texts(lines: Lines) -> Iterator[str]:
    """Bytes that are not UTF-8 come as surrogates, so that one bad line is one bad line."""
    for raw in lines:
        yield raw.decode("utf-8", "surrogateescape")


def _header(reader: Iterator[list[str]], lines: Lines) -> list[str]:
    try:
        fields = next((record for record in reader if record), [])
    except csv.Error as error:
        raise ConfigError(f"the first line is not CSV: {error}") from None
    if not lines.number:
        return []
    if not fields or not all(fields) or len(set(fields)) < len(fields) or not _is_text(fields):
        raise ConfigError(
            f"the first line of a CSV file names the fields, each once; given {shown(fields)}"
        )
    return fields


def _csv_row(number: int, fields: list[str], record: list[str]) -> Row | BadLine:
    if len(record) != len(fields):
        return BadLine(number, f"expected {len(fields)} columns, given {len(record)}")
    if not _is_text(record):
        return BadLine(number, "not UTF-8")
    return Row(number, dict(zip(fields, record, strict=True)))


def _is_text(values: list[str]) -> bool:
    try:
        "".join(values).encode()
    except UnicodeEncodeError:
        return False
    return True


def _too_long(lines: Lines) -> str:
    return f"longer than {lines.longest} bytes"


def size_of(stream: BinaryIO) -> int | None:
    """How many bytes a regular file has; None for a pipe or a terminal."""
    try:
        return stream.seek(0, io.SEEK_END) if stream.seekable() else None
    except OSError:
        return None
    finally:
        if stream.seekable():
            stream.seek(0)
