"""The parts of a worker, in the order in which a job meets them. Each knows those it uses only.

slots.py        how many jobs may run in the process; whether a queue's loop asks for some
caller.py       the calls of that loop, and how they go
fetcher.py      the loop itself: claim, start what was claimed, send how it ended
entries.py      what was claimed and is under way: each job's task, what its ending means
executor.py     runs a handler, on the loop or in a thread
settling.py     endings on their way to the server

lifespan.py, watchdog.py and supervisor.py are about the process.
"""
