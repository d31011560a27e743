"""Stage 3: what a workflow may not do, and what it may though it sounds dangerous [2.3]."""

import json
from typing import Any

import pytest

from comfyrail.validation.dangerous_texts import find_escape
from comfyrail.validation.node_checks import examine
from comfyrail.validation.policy import SecurityPolicy, WorkflowLimits
from comfyrail.validation.security import check_security
from comfyrail.workflow.catalog import parse_object_info
from comfyrail.workflow.graph import parse_workflow
from tests.validation.parts import (
    FORMATS,
    codes,
    context,
    findings,
    node,
    object_info,
    shown_image,
    text_to_image,
    whole_catalog,
)

HARMLESS_WORDS = [
    "a poster that says eval( and exec( in neon",
    "javascript: the good parts, book cover, <script> tag as graffiti",
    "__import__('os') written on a blackboard, __builtins__",
    "../../etc/passwd as ascii art; rm -rf / on a T-shirt",
    "see http://169.254.169.254/latest and file:///etc/passwd",
    "https://example.com/only-a-url.png",
    "C:\\Windows\\System32 ~/.ssh %2e%2e%2f",
]


@pytest.mark.parametrize("text", HARMLESS_WORDS)
def test_prompt_may_mention_anything(text: str) -> None:
    graph = text_to_image()
    graph["p"]["inputs"]["text"] = text
    graph["p"]["_meta"] = {"title": text}
    assert findings(graph) == []


@pytest.mark.parametrize("text", HARMLESS_WORDS)
def test_text_that_becomes_a_prompt_through_other_nodes_may_mention_anything(text: str) -> None:
    graph = text_to_image()
    graph["t"] = node("PrimitiveString", value=text)
    graph["j"] = node("StringConcatenate", string_a=["t", 0], string_b=text, delimiter=", ")
    graph["p"]["inputs"]["text"] = ["j", 0]
    graph["show"] = node("PreviewAny", source=["j", 0])
    assert findings(graph) == []


def test_published_templates_pass() -> None:
    policy = context(catalog=whole_catalog())
    exported = sorted((FORMATS / "exported").glob("*.json"))
    for path in exported:
        workflow = parse_workflow(json.loads(path.read_text()))
        found = check_security(workflow, examine(workflow, policy.catalog), policy)
        assert found == [], path.name
    assert len(exported) == 40


# Code


@pytest.mark.parametrize(
    "code",
    [
        "eval('1')",
        "exec (x)",
        "__import__('os')",
        "().__class__.__bases__",
        "getattr(a, 'b')",
        "open('/etc/passwd')",
        "import os",
        "<script>alert(1)</script>",
        "< SCRIPT src=x>",
        "new Function('x')",
        "ｅｖａｌ(1)",
        "__ｉmport__('ｏｓ')",
        "().＿＿class＿＿",
        "open (path)",
    ],
)
def test_code_in_an_input_for_code_is_refused(code: str) -> None:
    graph = shown_image(f=node("Formula", expression=f"a + 1\n{code}"))
    found = findings(graph)
    assert [(each.error_code, each.path) for each in found] == [
        ("CODE_INJECTION", "f.inputs.expression")
    ]
    assert found[0].details["meaning"] == "code"


@pytest.mark.parametrize("code", ["a * 2 + b", "min(a, b) if a > b else round(c)", "x ** 0.5"])
def test_expression_that_only_computes_passes(code: str) -> None:
    assert findings(shown_image(f=node("Formula", expression=code))) == []


def speaking(**inputs: str) -> list[tuple[str, str | None]]:
    info = object_info()
    several = ["STRING", {"multiline": True}]
    names = {"script": several, "shell_color": several, "html_color": ["STRING", {}]}
    info["Speak"] = {"input": {"optional": names}, "output": ["AUDIO"]}
    return codes(shown_image(s=node("Speak", **inputs)), catalog=parse_object_info(info))


def test_script_that_is_spoken_and_colour_of_a_shell_are_words() -> None:
    text = "Doors open (slowly). We need your input (please)."
    assert speaking(script=text, shell_color="red; shiny & new", html_color="#fff") == []
    for code in ("open('x')", "open ('x')", "eval (x)", "import os"):
        assert speaking(script=f"Hello.\n{code}") == [("CODE_INJECTION", "s.inputs.script")]


@pytest.mark.parametrize("command", ["ls; id", "a && b", "$(id)", "`id`", "x | y", "a > b"])
def test_command_that_starts_others_is_refused(command: str) -> None:
    assert codes(shown_image(r=node("RunTool", command=command))) == [
        ("CODE_INJECTION", "r.inputs.command")
    ]


def test_text_that_reaches_an_input_for_code_is_code() -> None:
    graph = shown_image(
        t=node("PrimitiveStringMultiline", value="__import__('os').system('id')"),
        j=node("StringConcatenate", string_a=["t", 0], string_b="", delimiter=""),
        f=node("Formula", expression=["j", 0]),
    )
    assert codes(graph) == [("CODE_INJECTION", "t.inputs.value")]


def test_one_line_of_unknown_meaning_may_not_be_code_or_a_forbidden_url() -> None:
    graph = shown_image(w=node("WebPicture", source="__import__('os')"))
    assert codes(graph) == [("CODE_INJECTION", "w.inputs.source")]
    graph["w"]["inputs"]["source"] = "http://169.254.169.254/latest/meta-data"
    assert codes(graph) == [("UNAUTHORIZED_DOMAIN", "w.inputs.source")]
    graph["w"]["inputs"]["source"] = "a cat, see http://example.com"
    assert codes(graph) == []


ODD_URLS = [
    "URL:http://169.254.169.254/",
    "url: http://169.254.169.254/",
    "<http://169.254.169.254/>",
    "<URL:http://169.254.169.254/>",
    " \t'http://169.254.169.254/'",
    "http://169.254.169.254/a b",
    "http:/169.254.169.254",
    "http:169.254.169.254",
    "http:\\\\169.254.169.254\\x",
    "\x01http://169.254.169.254/",
    "ht\ntp:\t//169.254.169.254/",
    "concat:http://169.254.169.254/x|http://example.com",
    "subfile,,start,0,end,0,,:/etc/passwd",
    "crypto+http://169.254.169.254/",
    "cache:/etc/passwd",
    "file:/etc/passwd",
    "view-source:http://169.254.169.254/",
]


@pytest.mark.parametrize("url", [*ODD_URLS, "\\\\evil\\share", "//evil/share"])
def test_what_lenient_programs_take_for_a_url_is_judged_as_one(url: str) -> None:
    policy = SecurityPolicy(allowed_domains=("*",))
    for class_type, name in (("WebPicture", "source"), ("FetchImage", "url")):
        graph = shown_image(w=node(class_type, **{name: url}))
        assert codes(graph, policy=policy) == [("UNAUTHORIZED_DOMAIN", f"w.inputs.{name}")]
    graph = shown_image(f=node("LoadFolder", directory=url))
    assert len(codes(graph, policy=policy)) == 1


@pytest.mark.parametrize(
    "text", ["16:9", "Q: what?", "a cat: red", "C:realistic", "note: see http://x", "7, 8, 9", "~"]
)
def test_words_with_a_colon_are_no_url(text: str) -> None:
    assert codes(shown_image(w=node("WebPicture", source=text))) == []


def test_url_in_place_of_a_path_is_judged_as_a_path_too() -> None:
    graph = shown_image(f=node("LoadFolder", directory="https://example.com/../../../etc/passwd"))
    policy = SecurityPolicy(allowed_domains=("*",))
    assert codes(graph, policy=policy) == [("PATH_TRAVERSAL", "f.inputs.directory")]
    graph["f"]["inputs"]["directory"] = "https://example.com/x"
    assert codes(graph, policy=policy) == []


# Paths


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "a/../../x",
        "a/..",
        "/etc/passwd",
        "//server/share",
        "C:x",
        "c:/x",
        "~/x",
        "~root/x",
        "..\\x",
        "a\\..\\..\\x",
        "\\x",
        "\\\\server\\share",
        "a\x00b",
        "a\nb",
        "%2e%2e/x",
        "%252e%252e%252fx",
        "..%2fx",
        "%2fetc",
        "a/.. /b",
        "．．/x",
        "..",
    ],
)
def test_path_that_may_leave_its_folder_is_refused(path: str) -> None:
    graph = shown_image()
    graph["3"] = node("SaveImage", images=["1", 0], filename_prefix=path)
    assert codes(graph) == [("PATH_TRAVERSAL", "3.inputs.filename_prefix")]
    graph["3"] = node("LoadImage", image=f"{path} [temp]")
    assert codes(graph) == [("PATH_TRAVERSAL", "3.inputs.image")]


@pytest.mark.parametrize(
    "path",
    [
        "cat",
        "sub/cat",
        "sub/x.png [temp]",
        "%date:yyyy-MM-dd%/cat",
        "%CheckpointLoaderSimple.ckpt_name%/x",
        "a..b/c...d",
        "50% off",
        "höhe/ätz",
        "a~b",
        ".hidden",
        "",
        "ab:c",
        "video\\ltx-t2v",
    ],
)
def test_path_within_its_folder_passes(path: str) -> None:
    assert find_escape(path) is None


def test_text_that_becomes_part_of_a_path_may_not_go_up() -> None:
    graph = shown_image(
        j=node("StringConcatenate", string_a="a/", string_b="../../x", delimiter="/"),
        s=node("SaveImage", images=["1", 0], filename_prefix=["j", 0]),
    )
    assert codes(graph) == [("PATH_TRAVERSAL", "j.inputs.string_b")]


def test_absolute_path_into_an_allowed_folder_passes() -> None:
    policy = SecurityPolicy(allowed_folders=("/data/shared/",))
    graph = shown_image(f=node("LoadFolder", directory="/data/shared/cats"))
    assert codes(graph) == [("PATH_TRAVERSAL", "f.inputs.directory")]
    assert codes(graph, policy=policy) == []
    for path in ("/data/sharedother", "/data/shared/../x"):
        graph["f"]["inputs"]["directory"] = path
        assert codes(graph, policy=policy) == [("PATH_TRAVERSAL", "f.inputs.directory")]


# URLs


def fetching(url: Any) -> dict[str, Any]:
    return shown_image(f=node("FetchImage", url=url))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://example.com/x.png", "domain"),
        ("example.com/x.png", "domain"),
        ("file:///etc/passwd", "scheme"),
        ("data:image/png;base64,AAAA", "scheme"),
        ("ftp://example.com/x", "scheme"),
        ("https://allowed.org@evil.com/", "credentials"),
        ("https://allowed.org\\@evil.com/", "malformed"),
        ("https://evil.com#@allowed.org", "domain"),
        ("https://allowed.org.evil.com/", "domain"),
        ("https://evilallowed.org/", "domain"),
        ("https://sub.allowed.org/", "domain"),
        ("http://2130706433/", "domain"),
        ("https:///x", "malformed"),
        ("https://below.org/", "domain"),
    ],
)
def test_url_of_a_domain_that_is_not_allowed_is_refused(url: str, reason: str) -> None:
    policy = SecurityPolicy(allowed_domains=("allowed.org", "*.below.org"))
    found = findings(fetching(url), policy)
    assert [each.error_code for each in found] == ["UNAUTHORIZED_DOMAIN"]
    assert found[0].details["reason"] == reason


@pytest.mark.parametrize(
    "url",
    [
        "https://allowed.org/x.png",
        "http://ALLOWED.org.:8080/x",
        "https://a.b.below.org/",
        "https://bücher.de/",
        " https://allowed.org ",
    ],
)
def test_url_of_an_allowed_domain_passes(url: str) -> None:
    policy = SecurityPolicy(allowed_domains=("Allowed.org", "*.below.org", "xn--bcher-kva.de"))
    assert findings(fetching(url), policy) == []


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "0x7f.1",
        "2130706433",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "localhost",
        "box.local",
        "metadata.google.internal",
        "router",
        "169.254.169.254.",
    ],
)
def test_any_domain_means_any_public_one(host: str) -> None:
    policy = SecurityPolicy(allowed_domains=("*",))
    found = findings(fetching(f"http://{host}/"), policy)
    assert [each.details["reason"] for each in found] == ["private_address"]
    assert findings(fetching("https://example.com/"), policy) == []


@pytest.mark.parametrize(
    "url",
    [
        "https://alice:s3cr3tPW@example.com/x.png",
        "https://alice:s3cr3tPW/?#x@example.com/x.png",
        "https://alice@s3cr3tPW@example.com",
        "alice:s3cr3tPW@example.com",
        "https:/alice:s3cr3tPW@example.com",
        "https://example.com/x.png?token=s3cr3tPW",
        "https://example.com/x.png#s3cr3tPW",
        "https://example.com:s3cr3tPW@/",
        "ftp://alice:s3cr3tPW@example.com/",
        "http:\\\\alice:s3cr3tPW@example.com",
    ],
)
def test_secrets_of_a_url_are_not_told(url: str) -> None:
    for graph in (
        fetching(url),
        shown_image(f=node("LoadFolder", directory=url)),
        shown_image(f=node("LoadFolder", directory=f"{url}/../x")),
        shown_image(w=node("WebPicture", source=url)),
    ):
        assert "s3cr3tPW" not in str([each.as_dict() for each in findings(graph)])


def test_script_as_url_is_code() -> None:
    assert codes(fetching("javascript:alert(1)")) == [("CODE_INJECTION", "f.inputs.url")]


def test_url_that_comes_from_a_primitive_is_judged_and_one_that_is_computed_refused() -> None:
    graph = fetching(["t", 0]) | {"t": node("PrimitiveString", value="http://10.0.0.1/")}
    assert codes(graph) == [("UNAUTHORIZED_DOMAIN", "t.inputs.value")]
    graph["t"] = node("CaseConverter", string="HTTP://X", mode="lowercase")
    found = findings(graph)
    assert [(each.path, each.details["reason"]) for each in found] == [("f.inputs.url", "computed")]
    assert findings(graph, SecurityPolicy(allow_computed_urls=True)) == []


# Node types


@pytest.mark.parametrize("class_type", ["ExecuteSystemCommand", "IDENode"])
def test_dangerous_node_types_are_refused(class_type: str) -> None:
    assert codes(shown_image(x=node(class_type))) == [("DANGEROUS_NODE", "x.class_type")]
    assert (
        codes(shown_image(x=node(class_type)), policy=SecurityPolicy(denied_node_types=frozenset()))
        == []
    )


def test_only_listed_node_types_where_there_is_a_list() -> None:
    policy = SecurityPolicy(allowed_node_types=frozenset({"EmptyImage"}))
    assert codes(shown_image(), policy=policy) == [("NODE_NOT_ALLOWED", "2.class_type")]


@pytest.mark.parametrize(
    ("rule", "refused"),
    [
        ("allow", False),
        ("deny", True),
        (frozenset({"fetch-pack"}), False),
        (frozenset({"FetchImage"}), False),
        (frozenset({"other-pack"}), True),
    ],
)
def test_custom_nodes_by_policy(rule: Any, refused: bool) -> None:
    policy = SecurityPolicy(custom_node_policy=rule, allowed_domains=("example.com",))
    found = codes(fetching("https://example.com/"), policy=policy)
    assert found == ([("NODE_NOT_ALLOWED", "f.class_type")] if refused else [])


# Limits


def test_hundred_nodes_are_allowed_by_default() -> None:
    graph: dict[str, Any] = shown_image()
    graph |= {f"i{n}": node("ImageInvert", image=["1", 0]) for n in range(98)}
    assert findings(graph) == []
    graph["one more"] = node("ImageInvert", image=["1", 0])
    found = findings(graph)
    assert [each.error_code for each in found] == ["LIMIT_EXCEEDED"]
    assert found[0].details == {"limit": "max_nodes", "allowed": 100, "actual": 101}


@pytest.mark.parametrize(
    ("limits", "change", "path", "limit"),
    [
        ({"max_image_side": 256}, {"width": 257}, "l.inputs.width", "max_image_side"),
        ({"max_image_side": 256}, {"width": "512"}, "l.inputs.width", "max_image_side"),
        (
            {"max_image_side": 256},
            {"height": {"__value__": 512}},
            "l.inputs.height",
            "max_image_side",
        ),
        ({"max_image_pixels": 40000}, {"width": 256}, "l.inputs.width", "max_image_pixels"),
        ({"max_batch_size": 2}, {"batch_size": 3}, "l.inputs.batch_size", "max_batch_size"),
    ],
)
def test_sizes_are_limited(limits: Any, change: Any, path: str, limit: str) -> None:
    graph = text_to_image()
    graph["l"]["inputs"] |= {"width": 128, "height": 192} | change
    policy = SecurityPolicy(limits=WorkflowLimits(**limits))
    found = findings(graph, policy)
    assert [(each.error_code, each.path) for each in found] == [("LIMIT_EXCEEDED", path)]
    assert found[0].details["limit"] == limit


def test_steps_texts_and_bytes_are_limited() -> None:
    policy = SecurityPolicy(
        limits=WorkflowLimits(max_steps=30, max_string_length=50, max_workflow_bytes=3000)
    )
    graph = text_to_image(steps=31)
    graph["p"]["inputs"]["text"] = "x" * 51
    graph["n"]["inputs"]["text"] = "x" * 4000
    limits = [each.details["limit"] for each in findings(graph, policy)]
    assert sorted(limits) == [
        "max_steps",
        "max_string_length",
        "max_string_length",
        "max_workflow_bytes",
    ]


def test_limits_reach_the_parts_of_dynamic_inputs() -> None:
    graph = shown_image(
        r=node(
            "ResizeImageMaskNode",
            input=["1", 0],
            scale_method="area",
            resize_type="scale dimensions",
            **{"resize_type.width": 9000, "resize_type.height": 10, "resize_type.crop": "center"},
        )
    )
    assert codes(graph) == [("LIMIT_EXCEEDED", "r.inputs.resize_type.width")]
