"""Where the cluster is, and how to show who asks."""

import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from comfyrail.engine.distributed.settings import KubernetesSection
from comfyrail.errors import ConfigurationError

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    url: str
    namespace: str
    token_file: Path | None = None
    ca_file: Path | None = None

    def authorization(self) -> dict[str, str]:
        """The header that shows who asks. Raises OSError where the token cannot be read."""
        if self.token_file is None:
            return {}
        return {"Authorization": f"Bearer {self.token_file.read_text('utf-8').strip()}"}

    def ssl_context(self) -> ssl.SSLContext | bool:
        """Raises OSError or ssl.SSLError where the authority's file is no good."""
        if self.ca_file is None:
            return True
        return ssl.create_default_context(cafile=str(self.ca_file))


def find_cluster(section: KubernetesSection, account: Path = ACCOUNT_FOLDER) -> ClusterAddress:
    """What the settings say, and for the rest the pod that this process runs in.

    Raises ConfigurationError where neither says where the cluster is.
    """
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    url = section.api_url
    token_file, ca_file = section.token_file, section.ca_file
    if url is None:
        if not host:
            raise ConfigurationError(
                "execution.distributed.kubernetes.api_url is not set, "
                "and this process runs in no cluster."
            )
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        token_file = token_file or account / "token"
        ca_file = ca_file or account / "ca.crt"
    return ClusterAddress(
        url.rstrip("/"), section.namespace or _own_namespace(account), token_file, ca_file
    )


def _own_namespace(account: Path) -> str:
    try:
        return (account / "namespace").read_text("utf-8").strip() or "default"
    except OSError:
        return "default"
