"""Several policies on the same jobs."""

import gc
from collections.abc import Sequence

import msgspec

from comfyrail.errors import ConfigurationError
from comfyrail.scheduling.simulation.figures import Figures, figures_of
from comfyrail.scheduling.simulation.policies import POLICIES
from comfyrail.scheduling.simulation.run import Simulation
from comfyrail.scheduling.simulation.scenario import Scenario
from comfyrail.scheduling.simulation.workload import make_workload
from comfyrail.workflow.nearest import did_you_mean, nearest_names, printable


def chosen_policies(scenario: Scenario, wanted: Sequence[str]) -> list[str]:
    """Those that are asked for, else the scenario's, else all. Raises ConfigurationError."""
    names = list(dict.fromkeys(wanted or scenario.policies or POLICIES))
    for name in names:
        if name not in POLICIES:
            near = did_you_mean(nearest_names(name, POLICIES))
            raise ConfigurationError(
                f"There is no policy {printable(name)!r}.{near} Policies: {', '.join(POLICIES)}."
            )
    return names


def run_policy(scenario: Scenario, policy_name: str, seed: int) -> Figures:
    workload = make_workload(scenario, seed)
    policy = POLICIES[policy_name](scenario)
    gc.disable()  # to look through a million jobs for garbage is no part of a round
    try:
        trace = Simulation(scenario, workload, policy).run()
    finally:
        gc.enable()
    figures = figures_of(scenario, policy_name, seed, trace)
    if policy.loads_take_time:
        return figures
    # Each model that is used must be loaded once at least: no policy can do with fewer.
    used = {name for each in trace.begun for name in each.job.needs.model_names}
    return msgspec.structs.replace(figures, loads=len(used))
