"""The parts of a worker, in the order in which a job meets them. Each knows those it uses only.

slots.py        how many jobs may run in the process; its queues take them in rotation
demand.py       whether a queue's loop asks for work: its place in the line for slots, at the bell
caller.py       the calls of that loop, and how they go
fetcher.py      the loop itself: claim, start what was claimed, send how it ended
entries.py      what was claimed and is under way: each job's task
runner.py       one job's handler: what its ending means, who is told
executor.py     runs it, on the loop or in a thread
settling.py     endings on their way to the server

lifespan.py, watchdog.py and supervisor.py are about the process.
"""
