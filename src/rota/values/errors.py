"""The errors of input that is outside its rules. All errors are in `rota.errors`."""

from __future__ import annotations


class RotaError(Exception):
    """Root of every error of rota. All survive pickling, for handlers that use process pools."""


class ConfigError(RotaError, ValueError):
    """A setting, name, limit or option is outside its rules; nothing was written."""


class PayloadError(RotaError, ValueError):
    """Arguments do not fit the task's signature, or cannot travel; nothing was written."""
