"""Why a job or a lane is not running now, and what would free it.

Scripts tell the facts of one moment (`facts`); `lanes`, `jobs` and `turns` say what they mean, in
sentences (`words`); `explainer` asks, as operations without I/O, and gives an `explanation`.
"""

from rota.explain.explainer import explain_job, explain_lane
from rota.explain.explanation import Explanation, Reason, ReasonKind

__all__ = ["Explanation", "Reason", "ReasonKind", "explain_job", "explain_lane"]
