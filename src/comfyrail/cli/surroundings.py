"""What a check without a server knows: the policy of the settings, and what a server remembers."""

from dataclasses import dataclass
from pathlib import Path

from comfyrail.bootstrap.policy import cost_rates, security_policy
from comfyrail.bootstrap.settings import load_settings
from comfyrail.cli.catalogs import choose_catalog
from comfyrail.planning.analyst import Analyst
from comfyrail.planning.cost import CostRates
from comfyrail.planning.duration import DurationModel
from comfyrail.planning.plan import told_sizes
from comfyrail.validation.context import ValidationContext


@dataclass(frozen=True, slots=True)
class LocalSurroundings:
    context: ValidationContext
    model: DurationModel
    rates: CostRates
    likely_device: str | None


def local_surroundings(catalog: Path | None, data: Path | None) -> LocalSurroundings:
    settings = load_settings(data=data)
    chosen = choose_catalog(catalog, data)
    analyst = Analyst(chosen.catalog, told_sizes(chosen.workers))
    context = ValidationContext(
        catalog=chosen.catalog,
        workers=chosen.workers,
        policy=security_policy(settings),
        needs=analyst.needs,
    )
    devices = [worker.device for worker in chosen.workers if worker.device] or ["cpu"]
    return LocalSurroundings(
        context, DurationModel.fit(chosen.records), cost_rates(settings), devices[0]
    )
