import obstore
import pytest
from structlog.testing import capture_logs

from comfyrail.engine.caching.object_level import ObjectLevel, open_store
from tests.engine.caching.cache_parts import ShiftedClock, key_of
from tests.services.ports import free_ports
from tests.services.seaweed import SeaweedS3

KEY = key_of("object")


def test_an_old_object_is_a_miss_and_is_removed(s3_server: SeaweedS3, clock: ShiftedClock) -> None:
    store = open_store(f"s3://{s3_server.bucket}/old", s3_server.options)
    level = ObjectLevel(store, clock, ttl_seconds=60)
    level.write(KEY, [b"kept"], clock.now())
    clock.ahead = 55
    assert level.locate([KEY]) == {KEY}
    clock.ahead = 65
    assert level.locate([KEY]) == set()
    assert level.read(KEY) is None
    assert [path for found in obstore.list(store) for path in found] == []
    level.close()


def test_clearing_leaves_the_objects_of_others(s3_server: SeaweedS3, clock: ShiftedClock) -> None:
    store = open_store(f"s3://{s3_server.bucket}/mixed", s3_server.options)
    level = ObjectLevel(store, clock)
    obstore.put(store, "notes.txt", b"mine")
    obstore.put(store, f"zz/{KEY}", b"mine")
    level.write(KEY, [b"1"], clock.now())
    level.clear()
    left = {str(found["path"]) for objects in obstore.list(store) for found in objects}
    assert left == {"notes.txt", f"zz/{KEY}"}
    level.close()


def test_an_object_larger_than_an_entry_may_be_is_not_fetched(
    s3_server: SeaweedS3, clock: ShiftedClock
) -> None:
    store = open_store(f"s3://{s3_server.bucket}/large", s3_server.options)
    level = ObjectLevel(store, clock, max_entry_bytes=10)
    level.write(KEY, [bytes(11)], clock.now())
    assert level.read(KEY) is None
    level.close()


def test_a_store_that_is_down_is_a_miss_with_a_pause(clock: ShiftedClock) -> None:
    endpoint = f"http://127.0.0.1:{free_ports(1)[0]}"
    options = {"endpoint": endpoint, "access_key_id": "a", "secret_access_key": "hush"}
    level = ObjectLevel(open_store("s3://nowhere", options), clock)
    with capture_logs() as logs:
        assert level.read(KEY) is None
        assert not level.write(KEY, [b"lost"], clock.now())
        assert level.locate([KEY, key_of("another")]) == set()
        clock.ahead += 4
        assert level.locate([KEY, key_of("another")]) == set()
        level.discard(KEY)
        level.clear()
    assert [line["event"] for line in logs] == ["cache_level_in_trouble"]
    assert "hush" not in str(logs)
    level.close()


def test_false_credentials_are_trouble_not_an_error(
    s3_server: SeaweedS3, clock: ShiftedClock
) -> None:
    options = {**s3_server.options, "secret_access_key": "false"}
    level = ObjectLevel(open_store(f"s3://{s3_server.bucket}", options), clock)
    with capture_logs() as logs:
        assert level.read(KEY) is None
    assert [line["event"] for line in logs] == ["cache_level_in_trouble"]
    level.close()


def test_settings_may_come_from_the_environment(
    s3_server: SeaweedS3, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    level = ObjectLevel(open_store(f"s3://{s3_server.bucket}/environment", {}), clock)
    assert level.write(KEY, [b"kept"], clock.now())
    assert bytes(memoryview(level.read(KEY) or b"")) == b"kept"
    level.close()
