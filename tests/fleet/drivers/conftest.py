"""What outlasts single tests here."""

from tests.fleet.drivers import podman


def pytest_sessionfinish() -> None:
    podman.shut_down()
