"""What every process needs that runs nodes for others: node types and the shared cache."""

import os
from collections.abc import Sequence
from pathlib import Path

from comfyrail.engine.configuration import EngineConfiguration, load_configuration
from comfyrail.engine.distributed.shared_results import open_shared_results
from comfyrail.engine.distributed.worker_side import TaskWorker
from comfyrail.engine.server.node_sources import load_nodes
from comfyrail.errors import ConfigurationError

CONFIG_VARIABLE = "COMFYRAIL_CONFIG"
NODES_VARIABLE = "COMFYRAIL_NODES"


def open_task_worker(configuration: EngineConfiguration, packs: Sequence[Path]) -> TaskWorker:
    """Built-in nodes and packs. Raises ConfigurationError."""
    results = open_shared_results(configuration.cache_config())
    return TaskWorker(load_nodes(None, (), packs).registry, results)


def configuration_of_environment() -> EngineConfiguration:
    """The file that `COMFYRAIL_CONFIG` names. Raises ConfigurationError."""
    path = os.environ.get(CONFIG_VARIABLE)
    if not path:
        raise ConfigurationError(
            f"{CONFIG_VARIABLE} must name the engine's configuration: "
            "it says where the shared cache is."
        )
    return load_configuration(Path(path))


def packs_of_environment() -> list[Path]:
    """The packs that `COMFYRAIL_NODES` names, as PATH names folders."""
    return [
        Path(path) for path in os.environ.get(NODES_VARIABLE, "").split(os.pathsep) if path.strip()
    ]
