"""How rota reaches a server, from a call to its reply.

target.py     a URL, read and checked
faults.py     what went wrong, and whether sending again is safe
protocol.py   one call from script to reply: what is sent, and sent again; no I/O
sharing.py    what the clients of a process have in common: connections, idle and in use
route.py      which server serves a queue, and what that server can do
sending.py    calls sent together, and what became of each
steps.py      what the protocol asks of a driver
wire.py       commands as bytes, replies from bytes, what is said first; no I/O
blocking.py   drives the protocol over blocking sockets
aio.py        drives it over asyncio
"""

from rota.connection.aio import AsyncClient
from rota.connection.blocking import Client
from rota.connection.protocol import Bounds
from rota.connection.target import Target, parse_url, without_password

__all__ = ["AsyncClient", "Bounds", "Client", "Target", "parse_url", "without_password"]
