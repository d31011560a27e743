"""Where on a worker the files of a workflow are saved."""

from comfyrail.workflow.graph import Workflow

PREFIX = "filename_prefix"
"""What nodes that save files call the beginning of a name; a slash in it makes a folder."""


def saving_into(workflow: Workflow, folder: str) -> Workflow:
    """The workflow with its files in a folder below the worker's outputs, as far as its nodes take
    a prefix that is written in the graph: one that a node computes stays as it is.
    """
    changes = {
        node_id: {PREFIX: f"{folder}/{prefix}"}
        for node_id, node in workflow.nodes.items()
        if isinstance(prefix := node.inputs.get(PREFIX), str)
    }
    return workflow.with_inputs(changes) if changes else workflow
