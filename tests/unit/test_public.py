"""The public names, and what may be said of them without a server."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
from datetime import timedelta
from typing import Any

import pytest

import rota
from rota.errors import ConfigError, RotaError
from rota.values.signals import Signal

PUBLIC = [
    "Advice", "Backoff", "BatchInterrupted", "Bury", "Cancelled", "Census", "ConfigError",
    "ConsumerInfo",
    "Drained", "Durable", "Enqueued", "Explanation", "Finding", "FoundQueue",
    "Job", "JobInfo", "JobSpec", "JobsPage", "LaneBroken", "LaneFull", "LaneInfo", "LaneShare",
    "LanesPage", "LeaseLost", "Moved", "NotDurable",
    "PayloadError", "Queue", "QueueBroken", "QueueClosed", "QueueInfo", "Rate", "RateLimited",
    "Reason", "Release",
    "Report",
    "Retry", "RotaError", "SequenceInfo", "SequencesPage", "ServerFull", "ServerTooOld", "Shares",
    "Signal", "Template", "Unavailable", "UnknownTask", "Worker", "WorkerConfig", "__version__",
    "current_job",
]  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert rota.__all__ == PUBLIC


def test_the_public_names_are_sorted_and_there() -> None:
    assert rota.__all__ == sorted(rota.__all__)
    assert all(hasattr(rota, name) for name in rota.__all__)


def test_nothing_else_is_offered() -> None:
    modules = {module.name for module in pkgutil.iter_modules(rota.__path__)}
    given = {name for name in vars(rota) if not name.startswith("_")} - modules
    assert given - set(rota.__all__) <= {"PackageNotFoundError", "version"}


def test_every_public_class_says_what_it_is() -> None:
    for name in rota.__all__:
        thing = getattr(rota, name)
        if inspect.isclass(thing):
            assert thing.__doc__, name
            assert not thing.__doc__.startswith(f"{name}("), (
                f"{name} has only a generated docstring"
            )


def test_every_error_is_a_rota_error() -> None:
    errors = [getattr(rota, name) for name in PUBLIC]
    errors = [e for e in errors if inspect.isclass(e) and issubclass(e, Exception)]
    assert all(issubclass(e, RotaError | Signal) for e in errors)
    assert not any(issubclass(e, RotaError) and issubclass(e, Signal) for e in errors)
    assert issubclass(rota.ConfigError, ValueError)
    assert issubclass(rota.PayloadError, ValueError)
    assert issubclass(rota.UnknownTask, LookupError)
    assert issubclass(rota.QueueBroken, rota.Unavailable)
    assert issubclass(rota.QueueClosed, rota.Unavailable)
    assert issubclass(rota.ServerFull, rota.Unavailable)
    assert issubclass(rota.ServerTooOld, rota.Unavailable)


@pytest.mark.parametrize(
    "error",
    [
        rota.ConfigError("x"),
        rota.LaneFull("t7"),
        rota.LaneBroken("t7", [rota.Enqueued("a", "created"), rota.Enqueued("b", "lane_broken")]),
        rota.LaneFull("t7", [rota.Enqueued("a", "created"), rota.Enqueued("b", "lane_full")]),
        rota.BatchInterrupted([rota.Enqueued("a", "created")], [rota.JobSpec(task="t")], "why"),
        rota.QueueBroken("emq:{q}:ring", "string", "zset"),
        rota.NotDurable("why", [rota.Enqueued("a", "created")]),
        rota.Retry(3, "why"),
        rota.Retry(),
        rota.Release(2),
        rota.RateLimited(30, scope="sequence"),
        rota.Bury("why"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_and_signals_survive_pickling(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert str(again) == str(error)


@pytest.mark.parametrize(
    "make",
    [
        lambda: rota.Retry(-1),
        lambda: rota.Retry(float("nan")),
        lambda: rota.Retry(error=ValueError("x")),  # type: ignore[arg-type]
        lambda: rota.Release("x"),  # type: ignore[arg-type]
        lambda: rota.Release(timedelta(seconds=-1)),
        lambda: rota.RateLimited(10**12),
        lambda: rota.RateLimited(1, scope="queue"),  # type: ignore[arg-type]
        lambda: rota.Bury(ValueError("x")),  # type: ignore[arg-type]
    ],
)
def test_a_signal_refuses_what_it_cannot_mean(make: Any) -> None:
    with pytest.raises(ConfigError, match="expected .*, given"):
        make()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"name": ""}, "queue: expected 1-200 bytes"),
        ({"name": 5}, "queue: expected 1-200 bytes"),
        ({"name": "a{b"}, "queue: expected a name without"),
        ({"name": "a:7"}, "queue: expected a name not ending in ':' and digits"),
        ({"prefix": ""}, "prefix: expected 1-50 bytes"),
        ({"prefix": "{x}"}, "prefix: expected a name without"),
        ({"url": "bogus"}, "url: expected one of"),
        ({"url": 5}, "url: expected text"),
        ({"default_ceiling": -1}, "ceiling: expected a whole number"),
        ({"default_ceiling": True}, "ceiling: expected a whole number"),
        ({"default_ceiling": 1.0}, "ceiling: expected a whole number"),
        ({"max_payload": 0}, "max_payload: expected a whole number"),
        ({"max_payload": 65 * 1024 * 1024}, "max_payload: expected a whole number"),
        ({"beat": 0}, "beat: expected a number from 0.1"),
        ({"beat": 61}, "beat: expected a number from 0.1"),
        ({"beat": "x"}, "beat: expected seconds or a timedelta"),
        ({"shards": 16}, "shards: expected 1 .*, given 16"),
        ({"shards": True}, "shards: expected 1 .*, given True"),
        ({"shards": 1.0}, "shards: expected 1 .*, given 1.0"),
    ],
)
def test_a_queue_refuses_wrong_settings(settings: dict[str, Any], complaint: str) -> None:
    name = settings.pop("name", "orders")
    with pytest.raises(ConfigError, match=complaint):
        rota.Queue(name, **settings)


def plain(tenant: str, order: int = 0) -> None: ...


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        ({"max_attempts": 0}, "max_attempts: expected a whole number from 1"),
        ({"max_attempts": True}, "max_attempts: expected a whole number"),
        ({"timeout": 0}, "timeout: expected more than 0 s"),
        ({"timeout": -1}, "timeout: expected seconds"),
        ({"backoff": 5}, "backoff: expected a rota.Backoff or a function"),
        ({"on_dead": "x"}, "on_dead: expected 'skip' or 'hold'"),
        ({"lane_from": "nobody"}, "lane_from expected the name of a parameter"),
        ({"ordering_key_from": "args"}, "ordering_key_from expected the name of a parameter"),
        ({"id_from": 5}, "id_from expected the name of a parameter"),
        ({"name": ""}, "task: expected 1-200 bytes"),
        ({"name": 0}, "task: expected 1-200 bytes"),
        ({"name": "a\nb"}, "task: expected 1-200 bytes"),
        ({"retries": 3}, "task: expected name, max_attempts, timeout, .*given \\['retries'\\]"),
        (
            {"lane": "a", "max_attempts": 0},
            "task: expected name, max_attempts, .*given \\['lane'\\]",
        ),
    ],
)
def test_a_task_refuses_wrong_settings(policy: dict[str, Any], complaint: str) -> None:
    queue = rota.Queue("orders")
    with pytest.raises(ConfigError, match=complaint):
        queue.task(**policy)(plain)
    assert not queue.tasks


def test_a_task_is_named_like_its_function_and_only_once() -> None:
    queue = rota.Queue("orders")
    task = queue.task(plain)
    assert (task.name, list(queue.tasks)) == ("plain", ["plain"])
    with pytest.raises(ConfigError, match="has a task named 'plain' already"):
        queue.task(plain)
    assert queue.task(name="other")(plain).name == "other"
    with pytest.raises(rota.UnknownTask, match=r"no task 'x' \(registered: other, plain\)"):
        queue.find_task("x")


def test_a_policy_holds_beside_the_function_too() -> None:
    assert rota.Queue("orders").task(plain, max_attempts=2).policy.max_attempts == 2  # type: ignore[call-overload]


@pytest.mark.parametrize("thing", ["charge", 5, lambda: None])
def test_what_has_no_name_is_not_made_a_task(thing: Any) -> None:
    with pytest.raises(ConfigError, match="task: "):
        rota.Queue("orders").task(thing)


def test_calling_a_task_runs_the_function() -> None:
    queue = rota.Queue("orders")

    @queue.task
    def double(n: int) -> int:
        """Twice."""
        return 2 * n

    assert double(21) == 42
    assert double.__doc__ == "Twice."
    assert not double.is_async


def test_a_lifespan_is_an_async_generator() -> None:
    queue = rota.Queue("orders")

    async def no_generator() -> None: ...

    def not_async() -> Any:
        yield

    for wrong in (no_generator, not_async, 5):
        with pytest.raises(ConfigError, match="lifespan: expected an async function that yields"):
            queue.lifespan(wrong)  # type: ignore[arg-type]


def test_a_second_lifespan_is_refused() -> None:
    """Handlers would see the state of one of them."""
    queue = rota.Queue("orders")

    @queue.lifespan
    async def database() -> Any:
        yield

    async def cache() -> Any:
        yield

    with pytest.raises(
        ConfigError, match="has a lifespan already, database: .* cache .* yield both"
    ):
        queue.lifespan(cache)
    assert len(queue.lifespans) == 1


def test_making_a_queue_touches_no_server_and_no_directory(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    queue = rota.Queue("orders", default_ceiling=3)
    queue.task(plain)
    queue.lane("t7"), queue.job("j"), queue.consumer(), queue.sync
    assert list(tmp_path.iterdir()) == []


def test_current_job_outside_a_handler_is_a_lookup_error() -> None:
    with pytest.raises(LookupError):
        rota.current_job()


def test_the_package_is_marked_as_typed() -> None:
    assert (importlib.resources.files("rota") / "py.typed").is_file()
