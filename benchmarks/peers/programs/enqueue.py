"""`enqueue.py PROGRAM MODE JOBS`: the program's enqueuer.

A program is imported, not run: a task's name is the same here and in the worker.
"""

from __future__ import annotations

import importlib
import sys

if __name__ == "__main__":
    importlib.import_module(sys.argv.pop(1)).enqueue()
