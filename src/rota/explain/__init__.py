"""Why a job or a lane is not running now, and what would free it.

Scripts tell the facts of one moment (`facts`); `lanes`, `jobs` and `turns` say what they mean, in
sentences; `explainer` asks, as operations without I/O.
"""

from rota.explain.answer import Explanation, Kind, Reason
from rota.explain.explainer import Explainer

__all__ = ["Explainer", "Explanation", "Kind", "Reason"]
