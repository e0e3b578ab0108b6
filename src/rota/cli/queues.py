"""The queue that QUEUE or `module:queue` on the command line names: found, opened, listed."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TypeVar

from rota.cli.exits import FAILED, fail, reporting
from rota.errors import ConfigError
from rota.queue import Queue
from rota.values.config import MAX_LISTED

T = TypeVar("T")
MOST = 100_000
"""The most that is listed."""
_MODULE_QUEUE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


@contextlib.contextmanager
def opened(text: str, url: str | None, *, new: bool = False) -> Iterator[Queue]:
    """The queue of that name or module; whatever rota raises becomes a line and an exit code.

    Where there is nothing of it, that is said, and the exit code is 1; `new`: it may be so.
    """
    with reporting():
        queue = find_queue(text, url)
        with contextlib.closing(queue.sync):
            if not new and not queue.sync.exists():
                fail(absent(queue), FAILED)
            yield queue


def first_of(
    limit: int, page: Callable[[str | None, int], tuple[list[T], str | None]]
) -> tuple[list[T], bool]:
    """The first `limit` of what comes in pages, and whether there may be more; `page` is given a
    cursor and how many it may hold."""
    found: list[T] = []
    cursor = None
    while len(found) < limit:
        rows, cursor = page(cursor, min(MAX_LISTED, limit - len(found)))
        found += rows
        if cursor is None:
            return found, False
    return found, True


def state_of(queue: Queue, id: str) -> str:
    """What --dry-run goes by: where the job stands, `none` where there is none."""
    found = queue.sync.job(id).info()
    return "none" if found is None else found.state


def is_module_queue(text: str) -> bool:
    return _MODULE_QUEUE.fullmatch(text) is not None


def find_queue(text: str, url: str | None, *, starts: bool = False) -> Queue:
    """The queue of that name, or the one `module:queue` says; raises ConfigError.

    `starts`: its embedded server may be a new one; see `expect_server`.
    """
    queue = import_queue(text, url) if is_module_queue(text) else Queue(text, url=url)
    if not starts:
        expect_server(queue)
    return queue


def shell_words(text: str, url: str | None) -> tuple[str, ...]:
    """How a command line names that queue again."""
    return (text,) if url is None else (text, "--url", url)


def expect_server(queue: Queue) -> None:
    """Raises ConfigError where the server is an embedded one, and none has run there yet.

    To start an empty one would answer for a server that was forgotten to be named.
    """
    directory = queue.unstarted_server
    if directory is not None:
        raise ConfigError(
            f"no server to look at: none has run in {directory}\n"
            "  Name one with --url or ROTA_URL, or give module:queue of code that names one.\n"
            "  Only rota worker, dev, demo and enqueue start one here."
        )


def absent(queue: Queue) -> str:
    """What is said of a name that is perhaps mistyped."""
    return f"no such queue: nothing of {queue.name} is on {queue.server}"


def import_queue(text: str, url: str | None) -> Queue:
    """Imports `module:queue`, the current directory first on the path; raises ConfigError.

    `url` overrides the server the code names.
    """
    if not is_module_queue(text):
        raise ConfigError(
            f"expected module:queue, such as app:queue for `queue = rota.Queue(…)` in app.py, "
            f"given {text!r}"
        )
    module_name, _, path = text.partition(":")
    if module_name.endswith(".py"):
        meant = f"{module_name.removesuffix('.py')}:{path}"
        raise ConfigError(f"{text} names a file, not a module; did you mean {meant}?")
    module = _import(module_name)
    queue = _attribute(module, path)
    if not isinstance(queue, Queue):
        kind = type(queue).__name__
        raise ConfigError(
            f"{text} is a {kind}, expected a rota.Queue{_queues_of(module)}{_mistaken(module)}"
        )
    if url is not None and not queue.use_server(url):
        raise ConfigError(
            f"queue {queue.name} was used while its module was imported, so --url comes too late: "
            f"it is on {queue.server}"
        )
    return queue


def _import(name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise ConfigError(
                f"module {missing!r} not found, looked for in {here} and the Python path"
                + (f" (for {name!r})" if missing != name else "")
                + _mistaken(sys.modules.get(missing.partition(".")[0]))
            ) from None
        raise ConfigError(
            f"module {name!r} needs module {missing!r}, which is not installed{_place(error)}"
        ) from None
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"importing module {name!r} failed:\n{_own_traceback(error).rstrip()}"
        ) from None


def _attribute(module: ModuleType, path: str) -> object:
    found: object = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise ConfigError(
                f"module {module.__name__!r} was found, but it has no attribute {path!r}"
                f"{_queues_of(module)}{_mistaken(module)}"
            ) from None
    return found


def _queues_of(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Queue)]
    return f"; its queues: {', '.join(names)}" if names else ""


def _mistaken(module: ModuleType | None) -> str:
    """The file that was imported, where it is none of here, and the one that perhaps was meant."""
    if module is None:
        return ""
    here, file = os.getcwd(), getattr(module, "__file__", None)
    if file is not None and os.path.realpath(file).startswith(os.path.realpath(here) + os.sep):
        return ""
    said = f" (imported from {file})" if file is not None else ""
    stem = os.path.join(here, *module.__name__.split("."))
    for meant in (f"{stem}.py", os.path.join(stem, "__init__.py")):
        if os.path.exists(meant):
            known = module.__name__.partition(".")[0] in sys.stdlib_module_names
            whose = "the standard library's" if known else "that of another module"
            said += f"; {meant} was not imported, for its name is {whose}: rename it"
    return said


def _is_ours(file: str) -> bool:
    """Of a frame: whether it is here, or the import system's."""
    return file in (__file__, importlib.__file__) or file.startswith("<frozen importlib")


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not _is_ours(frame.filename)]
    return f" ({outside[-1].filename}, line {outside[-1].lineno})" if outside else ""


def _own_traceback(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))
