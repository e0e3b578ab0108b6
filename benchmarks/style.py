"""How the charts look, and what they need."""

from __future__ import annotations

from typing import Any

NEEDS = "needs matplotlib: pip install '.[bench]'"

INK = "#7d8590"
"""Reads on white and on black."""
STYLE: Any = {  # settings by name; the library types each name
    "svg.fonttype": "none",
    "svg.hashsalt": "rota",
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 11,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
NOTHING = {"Date": None, "Creator": None}
"""Metadata without which a chart of the same figures is the same file."""
