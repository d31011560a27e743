"""The runner of the strategy `distributed`, as the configuration says."""

from comfyrail.engine.caching.result_cache import ResultCache
from comfyrail.engine.distributed.remote_runner import RemoteRunner, Transport
from comfyrail.engine.distributed.settings import DistributedSection
from comfyrail.engine.distributed.shared_results import NO_SHARED_LEVEL
from comfyrail.engine.runners.interface import Runner
from comfyrail.errors import ConfigurationError


def build_remote_runner(
    section: DistributedSection, cache: ResultCache, local: Runner
) -> RemoteRunner:
    """`local` runs what is not sent. Nothing is connected yet. Raises ConfigurationError."""
    if not cache.is_shared:
        raise ConfigurationError(NO_SHARED_LEVEL)
    return RemoteRunner(
        _transport_of(section, cache),
        cache,
        local,
        width=section.most_tasks,
        remote_types=section.remote_types,
    )


def _transport_of(section: DistributedSection, cache: ResultCache) -> Transport:
    match section.runner:
        case "celery":
            return _celery(section)
        case "kubernetes":
            from comfyrail.engine.distributed.kubernetes_runner import (  # noqa: PLC0415 - one of three
                KubernetesTransport,
            )

            return KubernetesTransport(section.kubernetes, cache)
        case "lambda":
            from comfyrail.engine.distributed.lambda_runner import (  # noqa: PLC0415 - one of three
                LambdaTransport,
            )

            return LambdaTransport(section.aws_lambda)


def _celery(section: DistributedSection) -> Transport:
    try:
        from comfyrail.engine.distributed.celery_runner import (  # noqa: PLC0415 - an extra
            CeleryTransport,
        )
    except ImportError as error:
        raise ConfigurationError(
            "The strategy 'distributed' on Celery workers needs packages that are not installed. "
            "Install them with: pip install 'comfyrail[celery]'"
        ) from error
    return CeleryTransport(section)
