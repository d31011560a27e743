"""One server under many names is one place."""

import socket

import pytest

from comfyrail.fleet.places import Places, one_spelling
from comfyrail.ids import WorkerId


@pytest.mark.parametrize(
    "other",
    [
        "http://localhost:8188",
        "http://LOCALHOST.:8188/",
        "http://127.0.0.2:8188",
        "http://127.1:8188",
        "http://0x7f000001:8188",
        "http://[::1]:8188",
        "http://[::ffff:127.0.0.1]:8188",
        "http://0.0.0.0:8188",
        "http://worker.localhost:8188",
        "http://127.0.0.1:8188/x/..",
        "http://127.0.0.1:8188/x/%2e%2e/",
        "http://127.0.0.1:8188//",
        f"http://{socket.gethostname()}:8188",
    ],
)
def test_spellings_of_this_machine_are_one_place(other: str) -> None:
    places = Places()
    assert places.claim(WorkerId("w1"), "http://127.0.0.1:8188") is None
    assert places.owner_of(other) == "w1"
    assert places.claim(WorkerId("w2"), other) == "w1"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://127.0.0.1:8188", "http://127.0.0.1:8189"),
        ("http://10.0.0.1:8188", "http://10.0.0.2:8188"),
        ("http://10.0.0.1:8188", "http://127.0.0.1:8188"),
        ("http://10.0.0.1:8188/a", "http://10.0.0.1:8188/b"),
        ("http://gpu.example:8188", "http://gpu2.example:8188"),
        ("agent://one", "agent://ONE_"),
    ],
)
def test_other_places_stay_apart(one: str, other: str) -> None:
    assert one_spelling(one) != one_spelling(other)


def test_ports_may_go_without_saying() -> None:
    assert one_spelling("http://gpu.example") == one_spelling("http://GPU.example:80/")
