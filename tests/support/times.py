"""The times of the tests: so wide that a machine which stands still for some seconds fails none.

An upper bound tells the mechanism under test from what would come to the same end later: a beat,
the end of a lease, a client's time-out, a handler's long sleep; or from a hang. So what comes later
is moved far away, and the bound is wide. What is closer together is told by counting, by the order
of events, or by the best of some tries.

A lower bound counts from before the server was asked: a stall only lengthens what it measures.
"""

from __future__ import annotations

IN_TIME = 8.0
"""Longer than stalls, shorter than the 10 s that a call to the server may take and than FAR_BEAT
leaves in peace: what happens within it was none of them, and no hang."""

PATIENCE = 20.0
"""For what only a hang keeps from coming: where processes start, or much is done."""

FAR_BEAT = 60.0
"""So far away that no beat does a test's work: the first comes after a fifth of it or later."""

LEASE = 120.0
"""Longer than stalls, and than FAR_BEAT: for whoever is to keep what it holds."""

SHORT_BEAT = 1.0
"""For what is left to the beats."""

SHORT_LEASE = 2.0
"""For what is to be lost, or renewed, while a test waits for it; a stall may end it as well."""

AT_ONCE, TRIES = 0.05, 20
"""Too short for a timer or a pause: asked of the best of so many tries, as a machine that does much
else is often late and now and then is not."""
