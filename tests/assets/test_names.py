"""Names of uploaded files: plain ones, and none that lead elsewhere [10.8]."""

import pytest

from comfyrail.errors import MalformedRequest
from comfyrail.usecases.asset_names import canonical_name, check_name, read_canonical

SHA = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "name",
    [
        *("photo.png", "a/b/c/photo.png", "grüße 你好 (1).png", "no-ending", ".hidden.png"),
        *("x" * 251 + ".png", "a b.png", "100% sure.png", "it's.png", "a&b;c.png"),
    ],
)
def test_a_plain_name_is_kept_as_it_is(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "/", "/etc/passwd", "../../x", "a/../b", "a/./b", "a//b", "a/", "..", "..."),
        *("a\0b", "a\nb", "a\x1b[31m", "a\x7fb", "a\u2028b", "a\u202egnp.exe", "a\ud800"),
        *("C:\\x", "C:x", "\\\\host\\share", "a\\b", "~/x", "%2e%2e/x", "..%2fx", "．．/x"),
        *("x.png [output]", "x.png[temp]", "http://host/x.png", "file:/x", "a/b/c/d/e"),
        *("x" * 256, "ü" * 128, "<script>x</script>.png", f"uploads/{SHA[:32]}/x.png"),
    ],
)
def test_a_name_that_may_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        check_name(name)
    assert caught.value.code == "INVALID_FILE_NAME"
    assert len(caught.value.message) < 500


def test_a_job_names_a_file_by_its_content() -> None:
    name = canonical_name(SHA, "faces/photo.png")
    assert name == f"uploads/{SHA[:32]}/photo.png"
    assert read_canonical(name) == (SHA[:32], "photo.png")
    for other in ("photo.png", f"uploads/{SHA}/x", f"uploads/{SHA[:32]}/a/b", f"x/{name}"):
        assert read_canonical(other) is None
