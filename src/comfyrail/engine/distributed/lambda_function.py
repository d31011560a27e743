"""The function in AWS Lambda: where it is, and who asks for it."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from comfyrail.engine.distributed.aws_signature import (
    Credentials,
    SignedRequest,
    encode_segment,
    sign,
)
from comfyrail.engine.distributed.settings import LambdaSection
from comfyrail.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class LambdaFunction:
    endpoint: str
    path: str
    query: str
    region: str
    credentials: Credentials

    @property
    def url(self) -> str:
        return f"{self.endpoint}{self.path}{'?' + self.query if self.query else ''}"

    def headers_for(self, body: bytes, now: datetime | None = None) -> dict[str, str]:
        """The headers of a request to run it and wait for its answer."""
        request = SignedRequest(
            "POST",
            urlsplit(self.endpoint).netloc,
            self.path,
            self.query,
            {"Content-Type": "application/json", "X-Amz-Invocation-Type": "RequestResponse"},
            body,
        )
        return sign(
            request,
            self.credentials,
            region=self.region,
            service="lambda",
            now=now or datetime.now(UTC),
        )


def find_function(section: LambdaSection) -> LambdaFunction:
    """What the settings say, and for the rest the environment. Raises ConfigurationError."""
    if not section.function:
        raise ConfigurationError("execution.distributed.aws_lambda.function is not set.")
    region = section.region or _of_environment("AWS_REGION", "AWS_DEFAULT_REGION")
    if not region:
        raise ConfigurationError(
            "execution.distributed.aws_lambda.region is not set, and neither is AWS_REGION."
        )
    endpoint = section.endpoint_url or f"https://lambda.{region}.amazonaws.com"
    name = encode_segment(section.function)
    query = "" if section.qualifier is None else f"Qualifier={encode_segment(section.qualifier)}"
    return LambdaFunction(
        endpoint.rstrip("/"),
        f"/2015-03-31/functions/{name}/invocations",
        query,
        region,
        find_credentials(section),
    )


def find_credentials(section: LambdaSection) -> Credentials:
    """From the settings, or from the environment; never half from one and half from the other.

    Raises ConfigurationError.
    """
    if section.access_key_id and section.secret_access_key:
        return Credentials(section.access_key_id, section.secret_access_key, section.session_token)
    key, secret = _of_environment("AWS_ACCESS_KEY_ID"), _of_environment("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        raise ConfigurationError(
            "There are no credentials for AWS: set access_key_id and secret_access_key of "
            "execution.distributed.aws_lambda, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    return Credentials(key, secret, _of_environment("AWS_SESSION_TOKEN"))


def _of_environment(*names: str) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)
