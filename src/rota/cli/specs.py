"""From a line's arguments to the job they make."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass

from rota.errors import ConfigError
from rota.payload.codec import encode_plain
from rota.queue import Queue
from rota.task import AnyTask
from rota.values import names
from rota.values.ids import new_id
from rota.values.jobspec import DEFAULT_LANE, JobSpec, check_size


@dataclass(frozen=True, slots=True)
class Fields:
    """Which fields say a job's lane, ordering key and id."""

    lane: str | None = None
    ordering_key: str | None = None
    id: str | None = None


class SpecMaker:
    """Makes jobs of one task. `check`: the queue's code is known, and the task must be its."""

    def __init__(self, queue: Queue, task: str, fields: Fields, *, check: bool) -> None:
        """Raises UnknownTask or ConfigError for what would make every line bad."""
        self._queue = queue
        self._name = names.task_name(task)
        self._fields = fields
        self._task = queue.find_task(task) if check else None
        if self._task is not None:
            _check_fields(self._task, fields)

    def make(self, value: dict[str, object] | list[object]) -> JobSpec:
        """The job of one line; raises ConfigError or PayloadError saying what is wrong with it."""
        args, kwargs = (value, None) if isinstance(value, list) else (None, value)
        payload = encode_plain(args, kwargs)
        if self._task is not None:
            return self._checked(self._task, payload, kwargs)
        check_size(payload, self._queue.max_payload)
        lane, key, id = self._names(kwargs)
        return JobSpec(
            task=self._name,
            payload=payload,
            lane=DEFAULT_LANE if lane is None else lane,
            ordering_key=key,
            id=new_id() if id is None else id,
        )

    def _checked(self, task: AnyTask, payload: bytes, fields: dict[str, object] | None) -> JobSpec:
        """What the task itself would make of the arguments, its policy included."""
        args, kwargs = task.codec.decode(payload)
        if fields is None:
            fields = task.codec.bind(args, kwargs)
        lane, key, id = self._names(fields)
        twin = task.options(lane=lane, id=id)
        if key is not None:
            twin = task.options(lane=lane, id=id, ordering_key=key)
        return twin.spec(*args, **kwargs)

    def _names(self, given: dict[str, object] | None) -> tuple[str | None, str | None, str | None]:
        wanted = self._fields
        return (
            _name(given, wanted.lane, "lane"),
            _name(given, wanted.ordering_key, "ordering-key"),
            _name(given, wanted.id, "id"),
        )


def _check_fields(task: AnyTask, fields: Fields) -> None:
    parameters = inspect.signature(task.function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    task.codec.check_from(fields.lane, "--lane-from")
    task.codec.check_from(fields.ordering_key, "--ordering-key-from")
    task.codec.check_from(fields.id, "--id-from")


def _name(given: dict[str, object] | None, field: str | None, what: str) -> str | None:
    if field is None:
        return None
    if given is None:
        raise ConfigError(
            f"--{what}-from {field}: expected an object with that field, given an array"
        )
    if field not in given:
        raise ConfigError(f"--{what}-from {field}: there is no such field")
    value = given[field]
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    return names.as_name(value, f"--{what}-from {field}")
