"""Packs without a checkout, versions of their nodes, and what is no checkout."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from comfyrail.engine.comfyui.arguments import (
    cache_choice_of,
    listening_of,
    takes_custom_nodes,
)
from comfyrail.engine.comfyui.checkout import load_checkout, load_pack
from comfyrail.engine.comfyui.versions import digest_of_sources
from comfyrail.errors import ConfigurationError

NODE = """
class Double:
    RETURN_TYPES = ("INT",)
    FUNCTION = "double"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"x": ("INT", {"default": 1})}}

    def double(self, x):
        return (factor() * x,)
"""
PACK = """
from .parts import factor
%s
NODE_CLASS_MAPPINGS = {"Double": Double, "LoadImage": Double}
NODE_DISPLAY_NAME_MAPPINGS = {"Double": "Twice"}
"""


def make_pack(folder: Path, factor: int = 2) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text(PACK % NODE)
    (folder / "parts.py").write_text(f"def factor(): return {factor}\n")
    return folder


@pytest.fixture(autouse=True)
def clean_modules() -> object:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("/"):
            del sys.modules[name]


def test_a_pack_in_a_folder(tmp_path: Path) -> None:
    pack = load_pack(make_pack(tmp_path / "my-pack.v2"), reserved=["LoadImage"])
    assert list(pack.sources) == ["Double"]
    definition = pack.sources["Double"]()
    assert definition.function(x=4).outputs == (8,)
    assert definition.display_name == "Twice"
    assert definition.python_module == "custom_nodes.my-pack.v2"
    assert not pack.failures


def test_a_pack_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "doubles.py"
    file.write_text(f"def factor(): return 3\n{NODE}\nNODE_CLASS_MAPPINGS = {{'Three': Double}}\n")
    pack = load_pack(file)
    assert pack.sources["Three"]().function(x=4).outputs == (12,)
    assert pack.sources["Three"]().display_name == "Three"


def test_a_pack_of_the_engines_own_nodes(tmp_path: Path) -> None:
    source = (
        "from comfyrail.engine.definition import node\n"
        "@node('Own', required={'x': ('INT',)}, outputs=('INT',))\n"
        "def own(x):\n    return x + 1\n"
        "NODES = [own]\n"
    )
    file = tmp_path / "own.py"
    file.write_text(source)
    before = load_pack(file).sources["Own"]()
    assert (before.function(4), before.python_module) == (5, "custom_nodes.own")
    file.write_text(source + "# changed\n")
    assert load_pack(file).sources["Own"]().version != before.version


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import folder_paths", "it needs ComfyUI's module folder_paths: give a ComfyUI checkout"),
        ("from comfy.utils import x", "it needs ComfyUI's module comfy: give a ComfyUI checkout"),
        ("import no_such_package.part", "it needs the package no_such_package, which is not"),
        ("raise ValueError('two\\nlines')", "ValueError: two"),
        ("import sys; sys.exit(2)", "SystemExit: 2"),
        ("def broken(:", "SyntaxError: "),
        ("x = 1", "it has neither NODE_CLASS_MAPPINGS nor NODES"),
        ("NODE_CLASS_MAPPINGS = [1]", "it has neither NODE_CLASS_MAPPINGS nor NODES"),
        ("NODES = [1]", "TypeError: NODES has 1, which is no node type: see @node"),
    ],
)
def test_a_pack_that_fails_says_why(tmp_path: Path, source: str, reason: str) -> None:
    (tmp_path / "bad.py").write_text(source)
    pack = load_pack(tmp_path / "bad.py")
    assert pack.sources == {}
    (failure,) = pack.failures
    assert failure.name == "bad"
    assert failure.reason.startswith(reason)


def test_what_is_no_pack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no pack of nodes"):
        load_pack(tmp_path)
    with pytest.raises(ConfigurationError, match=r"There is no .*absent\.py"):
        load_pack(tmp_path / "absent.py")


def test_a_version_changes_with_any_source_of_the_pack(tmp_path: Path) -> None:
    one = load_pack(make_pack(tmp_path / "a" / "pack")).sources["Double"]().version
    same = load_pack(make_pack(tmp_path / "b" / "pack")).sources["Double"]().version
    other = load_pack(make_pack(tmp_path / "c" / "pack", factor=9)).sources["Double"]().version
    assert one == same
    assert one != other
    assert one.startswith("comfyui:custom_nodes.pack:")


def test_a_digest_does_not_count_what_is_no_source(tmp_path: Path) -> None:
    pack = make_pack(tmp_path / "pack")
    before = digest_of_sources(pack)
    for name in (".git", "__pycache__"):
        (pack / name).mkdir()
        (pack / name / "x.py").write_text("1")
    (pack / "model.bin").write_text("1")
    assert digest_of_sources(pack) == before
    (pack / "sub").mkdir()
    (pack / "sub" / "x.py").write_text("1")
    assert digest_of_sources(pack) != before


def test_what_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no ComfyUI checkout: it has no main"):
        load_checkout(tmp_path, [])
    for name in ("main.py", "nodes.py", "folder_paths.py", "comfy/cli_args.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(ConfigurationError, match=r"too old. Update it to"):
        load_checkout(tmp_path, [])


def test_without_torch_it_says_where_to_install(tmp_path: Path) -> None:
    for name in (
        "main.py",
        "nodes.py",
        "folder_paths.py",
        "comfy/cli_args.py",
        "comfy_api/latest/_io.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(ConfigurationError, match="need torch, which is not installed in"):
        load_checkout(tmp_path, [])


def flags(**set_flags: object) -> SimpleNamespace:
    given = {"listen": "127.0.0.1", "port": 8188, "disable_all_custom_nodes": False}
    return SimpleNamespace(**(given | set_flags))


def test_where_it_listens() -> None:
    assert listening_of(flags()) == (("127.0.0.1",), 8188)
    assert listening_of(flags(listen="0.0.0.0,::", port=9)) == (("0.0.0.0", "::"), 9)


def test_which_cache_is_wanted() -> None:
    assert cache_choice_of(flags()) == ("classic", 0)
    assert cache_choice_of(flags(cache_lru=0, cache_none=False)) == ("classic", 0)
    assert cache_choice_of(flags(cache_lru=100)) == ("lru", 100)
    assert cache_choice_of(flags(cache_lru=0, cache_ram=16.0)) == ("ram", 16.0)
    assert cache_choice_of(flags(cache_lru=0, cache_none=True)) == ("none", 0)


def test_which_custom_nodes_are_wanted() -> None:
    assert takes_custom_nodes(flags())
    assert takes_custom_nodes(flags(), "any")
    none = flags(disable_all_custom_nodes=True)
    assert not takes_custom_nodes(none)
    one = flags(disable_all_custom_nodes=True, whitelist_custom_nodes=["one"])
    assert takes_custom_nodes(one)
    assert takes_custom_nodes(one, "one")
    assert not takes_custom_nodes(one, "other")


def test_what_a_pack_prints_does_not_go_to_standard_output(tmp_path: Path) -> None:
    pack = tmp_path / "talks.py"
    pack.write_text("import os\nprint('hello')\nos.system('echo hi')\nNODE_CLASS_MAPPINGS = {}\n")
    load = f"from pathlib import Path; load_pack(Path({str(pack)!r})); print('done')"
    program = f"from comfyrail.engine.comfyui.checkout import load_pack; {load}"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout == "done\n"
    assert sorted(ran.stderr.split()) == ["hello", "hi"]
