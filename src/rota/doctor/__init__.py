"""Checks a queue while work goes on, and mends it. Operations without I/O.

findings.py   what it says
catalogue.py  what each key has to be
pages.py      goes through what there is, page by page
counts.py     figures that one script cannot add up
rounds.py     one round of all checks, in order; a report
server.py     settings of the server that endanger a queue

Each thing is judged within one script (`lua/lib/judge_*.lua`), so what is reported was so; a repair
judges it again and mends it in one script.
"""

from rota.doctor.findings import Advice, Finding, FindingKind, Report
from rota.doctor.rounds import Progress, examine

__all__ = ["Advice", "Finding", "FindingKind", "Progress", "Report", "examine"]
