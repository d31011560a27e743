"""Webhooks: 10,000 events to 20 endpoints of which 5 fail, and a server that is killed half-way."""

import tempfile
from pathlib import Path

from tests.notifications.flood import flood

JOBS = 5000
LIMIT_SECONDS = 1800.0


async def deliveries() -> None:
    """Every row is an endpoint; what counts is that no message is missing."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = await flood(Path(folder), JOBS, limit=LIMIT_SECONDS)
    print(f"  {outcome.events} events in {outcome.seconds:.0f} s, with two starts of the server")
    sent = sum(row.messages for row in outcome.rows)
    print(f"  {sent / outcome.seconds:.0f} deliveries a second to those that work")
    print("  endpoint     calls   messages   twice   in order   dead letters")
    for row in outcome.rows:
        order = "yes" if row.is_ordered else "NO"
        print(
            f"  {row.name:<10}{row.calls:>8}{row.messages:>11}{row.repeated:>8}{order:>11}"
            f"{row.dead:>15}"
        )
