"""How long each node of an execution takes, and what it uses [12.9]."""

from comfyrail.engine.profiling.node_profile import NodeProfile, Stretch
from comfyrail.engine.profiling.recorder import Recorder
from comfyrail.engine.profiling.report import ProfileReport
from comfyrail.engine.profiling.running import profile_execution

__all__ = ["NodeProfile", "ProfileReport", "Recorder", "Stretch", "profile_execution"]
