"""How rota tells of its work: log lines, spans, observers. They are others' code, and whatever
they raise must neither end a loop nor decide what becomes of a job."""

from __future__ import annotations

import logging
import sys
from types import TracebackType
from typing import Any, Final

from rota.values.failure import report

COMPLAINTS_MAX = 100


class _Safely:
    """Around what tells, without an await in it: what that raises is said once to stderr, by its
    kind and place, and goes no further."""

    def __init__(self) -> None:
        self._complained: set[tuple[str, str, int]] = set()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None or isinstance(error, KeyboardInterrupt):
            return False
        try:
            self._complain(error)
        except Exception:
            pass  # nobody is left to be told
        return True

    def _complain(self, error: BaseException) -> None:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = ("", 0) if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        which = (type(error).__qualname__, *place)
        if which not in self._complained and len(self._complained) < COMPLAINTS_MAX:
            self._complained.add(which)
            sys.stderr.write(f"rota: telling of its work failed, said once:\n{report(error)}\n")


safely: Final = _Safely()


class Logger(logging.LoggerAdapter[logging.Logger]):
    """A logger of the standard library that raises nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name))

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  (as the base has it)
        with safely:
            return self.logger.isEnabledFor(level)
        return False

    def log(self, level: int, msg: object, *args: object, **how: Any) -> None:
        extra = dict(how.pop("extra", None) or {})
        how["stacklevel"] = how.get("stacklevel", 1) + 1
        with safely:
            while True:
                try:
                    return self.logger.log(level, msg, *args, extra=extra, **how)
                except KeyError as error:
                    _leave_out(extra, error)


def _leave_out(extra: dict[str, object], error: KeyError) -> None:
    """Of the fields the one that the application's own records have already; else it raises."""
    for name in extra:
        if error.args == (f"Attempt to overwrite {name!r} in LogRecord",):
            del extra[name]
            return
    raise error
