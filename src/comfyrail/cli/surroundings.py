"""What a check without a server knows: the policy of the settings, and what a server remembers."""

from dataclasses import dataclass, replace
from pathlib import Path

from comfyrail.bootstrap.policy import cost_rates, read_policies
from comfyrail.bootstrap.settings import load_settings
from comfyrail.cli.catalogs import choose_catalog
from comfyrail.planning.analyst import Analyst
from comfyrail.planning.cost import CostRates
from comfyrail.planning.duration import DurationModel
from comfyrail.planning.model_sizes import told_sizes
from comfyrail.validation.context import ValidationContext
from comfyrail.workflow.capabilities import ResourceNeeds
from comfyrail.workflow.graph import Workflow


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
    model = DurationModel.fit(chosen.records)

    def needs(workflow: Workflow) -> ResourceNeeds:
        analysis = analyst.analyse(workflow)
        return replace(analysis.needs, seconds=model.predict(analysis).seconds)

    context = ValidationContext(
        catalog=chosen.catalog,
        workers=chosen.workers,
        policy=read_policies(settings).default,
        needs=needs,
    )
    devices = [worker.device for worker in chosen.workers if worker.device]
    # Without any worker it is the engine of this machine; of a catalog's file nobody knows.
    likely = devices[0] if devices else ("cpu" if catalog is None else None)
    return LocalSurroundings(context, model, cost_rates(settings), likely)
