"""`make screenshots`: every view of the page, light, dark and on a phone, into docs/images/page."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser import chromium  # noqa: E402 (the tests' parts are used: they know the way)
from tests.page.test_accessible import settle  # noqa: E402
from tests.page.views import set_scene  # noqa: E402
from tests.processes import server  # noqa: E402

TARGET = ROOT / "docs" / "images" / "page"
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}
WIDEST = 960
QUALITY = 60


def main() -> int:
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        environment = {"COMFYRAIL_WEBHOOK_NETWORKS": "127.0.0.0/8"}
        with server(data, workers=2, **environment) as process, chromium() as browser:
            process.wait_ready()
            places = set_scene(process).places
            for look, options in LOOKS.items():
                page = browser.new_context(**options).new_page()
                for name, place in places.items():
                    # Another document each time: a new place of the same one keeps its scrolling.
                    page.goto("about:blank")
                    page.goto(f"{process.url}/{place}")
                    settle(page)
                    page.wait_for_timeout(700)  # pictures that are decoded late
                    picture = Path(folder) / "picture.png"
                    page.screenshot(path=picture)
                    keep(picture, TARGET / f"{name}-{look}.webp")
                page.context.close()
    sizes = [each.stat().st_size for each in TARGET.glob("*.webp")]
    print(f"{len(sizes)} pictures in {TARGET.relative_to(ROOT)}, {sum(sizes) // 1024} KiB in all")
    return 0


def keep(picture: Path, target: Path) -> None:
    """Small enough for a repository, large enough to be read."""
    with Image.open(picture) as shot:
        shot.thumbnail((WIDEST, WIDEST * 4))
        shot.convert("RGB").save(target, "WEBP", quality=QUALITY, method=6)


if __name__ == "__main__":
    sys.exit(main())
