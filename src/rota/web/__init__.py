"""The dashboard: an ASGI application over one queue or several. It needs the extra `web`.

    app.mount("/jobs", rota.web.dashboard(queue))      # FastAPI, Starlette

app.py      routes, and what every answer goes through
access.py   who may see and do what: basic auth, read-only, `authorize`, lane scope
origin.py   where a request comes from: this site, this machine, a proxy that is believed
bounds.py   what one visitor may take: requests, live pages, guesses at passwords
watch.py    one look at a queue for everybody, while somebody looks (looks.py: what it saw)
stream.py   what changed, pushed to browsers
site.py     the queues and settings of one dashboard, and one request's view of it
acting.py   changes: checked, carried out, logged
actions.py  what can be changed
pages/      what is shown
render.py   templates; payload.py: arguments as text, masked and cut
"""

from __future__ import annotations

try:
    import jinja2  # noqa: F401
    import starlette  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"the dashboard needs {error.name}; install it with: pip install 'rota[web]'",
        name=error.name,
    ) from None

from rota.web.access import Subject
from rota.web.app import dashboard

__all__ = ["Subject", "dashboard"]
