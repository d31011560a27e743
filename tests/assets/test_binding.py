"""Names of files in a workflow mean the caller's own files, and nobody else's [10.8]."""

from typing import Any

import pytest

from comfyrail.access.principal import LOCAL_USER, Principal
from comfyrail.ids import new_job_id
from comfyrail.jobs.job import JobInput
from comfyrail.usecases.asset_binding import Bound, find_references
from comfyrail.usecases.asset_names import canonical_name
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from comfyrail.workflow.graph import parse_workflow
from tests.assets.parts import ANN, BOB, Kit, load_and_save, png

CATALOG = parse_object_info(
    {
        "LoadImage": {"input": {"required": {"image": [["x.png"], {"image_upload": True}]}}},
        "LoadImageOutput": {
            "input": {
                "required": {"image": ["COMBO", {"image_upload": True, "image_folder": "output"}]}
            }
        },
        "LoadLatent": {"input": {"required": {"latent": [["a.latent"]]}}},
        "LoadImageDataSetFromFolder": {"input": {"required": {"folder": [["a", "b"]]}}},
        "SaveImage": {"input": {"required": {"images": ["IMAGE"]}}, "output_node": True},
        "Text": {"input": {"required": {"text": ["STRING", {}]}}},
    }
)


def asset(asset_id: Any) -> dict[str, Any]:
    return {"__type": "core/ASSET", "info": {"id": asset_id, "file_path": "x.png"}}


async def bind(
    kit: Kit, graph: dict[str, Any], owner: Principal = ANN, catalog: NodeCatalog = CATALOG
) -> Bound:
    workflow = parse_workflow(graph)
    return await kit.binder.bind(owner, workflow, find_references(workflow, catalog))


def image_of(bound: Bound) -> Any:
    return bound.workflow.nodes["1"].inputs["image"]


def codes(bound: Bound) -> list[str]:
    return [each.error_code for each in bound.findings]


async def test_every_way_to_name_a_file_leads_to_its_content(kit: Kit) -> None:
    given = await kit.give("faces/photo.png", png())
    wanted = canonical_name(given.sha256, "photo.png")
    for name in (
        "faces/photo.png",
        "faces/photo.png [input]",
        given.id,
        wanted,
        f"{wanted} [input]",
        {"__value__": "faces/photo.png"},
        asset(given.id),
    ):
        bound = await bind(kit, load_and_save(name))
        assert image_of(bound) == wanted
        assert bound.inputs == (JobInput(wanted, given.blob_key, given.id),)
        assert not bound.findings


async def test_what_an_earlier_job_made_is_found_by_job_and_name(kit: Kit) -> None:
    attempt = await kit.make_output(png(3))
    (output,) = await kit.store.list_outputs(ANN.tenant, attempt.job_id)
    wanted = canonical_name(output.file.sha256, "made.png")
    for name in (f"{attempt.job_id}/made.png [output]", wanted):
        bound = await bind(kit, load_and_save(name))
        assert image_of(bound) == wanted
        (needed,) = bound.inputs
        assert needed.output == (attempt.job_id, output.file.id)
    for name in (
        f"{attempt.job_id}/made.png [temp]",
        f"{attempt.job_id}/other.png [output]",
        f"{new_job_id()}/made.png [output]",
        "made.png [output]",
    ):
        assert codes(await bind(kit, load_and_save(name))) == ["MISSING_INPUT_FILE"]
    assert codes(await bind(kit, load_and_save(wanted), BOB)) == ["MISSING_INPUT_FILE"]


async def test_files_of_others_are_not_there(kit: Kit) -> None:
    hers = await kit.give("photo.png", png())
    for name in ("photo.png", hers.id, canonical_name(hers.sha256, "photo.png")):
        bound = await bind(kit, load_and_save(name), BOB)
        assert codes(bound) == ["MISSING_INPUT_FILE"]
        assert not bound.inputs
        assert bound.findings[0].path == "1.inputs.image"
        assert "POST /v1/uploads" in bound.findings[0].message
    bound = await bind(kit, load_and_save(asset(hers.id)), BOB)
    assert codes(bound) == ["MISSING_ASSET"]
    assert bound.findings[0].details == {"input": "image", "asset_id": hers.id}


async def test_the_same_name_means_each_ones_own(kit: Kit) -> None:
    for owner, seed in ((ANN, 1), (BOB, 2)):
        given = await kit.give("photo.png", png(seed), owner)
        bound = await bind(kit, load_and_save("photo.png"), owner)
        assert image_of(bound) == canonical_name(given.sha256, "photo.png")


async def test_files_of_the_server_are_its_local_users_alone(kit: Kit) -> None:
    (kit.folder / "input" / "faces").mkdir(parents=True)
    (kit.folder / "input" / "faces" / "own.png").write_bytes(png())
    for name in ("x.png", "x.png [input]", "faces/own.png", "faces/own.png [input]", "../../x"):
        assert codes(await bind(kit, load_and_save(name), BOB)) == ["MISSING_INPUT_FILE"]
        own = await bind(kit, load_and_save(name), LOCAL_USER)
        assert (image_of(own), codes(own)) == (name, [])


NO_JOB = "01a1e1eb-a6f7-7178-8c73-e25b1dc0ade2"


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("y.png", "error"),
        ("y.png [input]", "error"),
        ("uploads/0123456789abcdef0123456789abcdef/y.png", "error"),
        (f"{NO_JOB}/made.png [output]", "error"),
        (f"{NO_JOB}/made.png [temp]", "error"),
        (NO_JOB, "error"),
        ("made.png [output]", "warning"),
        ("faces/y.png", "warning"),
        ("sub/x.png [temp]", "warning"),
    ],
)
async def test_local_user_is_told_of_a_file_that_nobody_has(
    kit: Kit, name: str, severity: str
) -> None:
    bound = await bind(kit, load_and_save(name), LOCAL_USER)
    (finding,) = bound.findings
    assert (finding.error_code, finding.severity) == ("MISSING_INPUT_FILE", severity)
    assert finding.path == "1.inputs.image"
    assert image_of(bound) == name


async def test_nearest_name_is_suggested(kit: Kit) -> None:
    bound = await bind(kit, load_and_save("xx.png"), LOCAL_USER)
    assert "Did you mean 'x.png'?" in bound.findings[0].message


async def test_an_empty_list_is_a_list(kit: Kit) -> None:
    catalog = parse_object_info(
        {"LoadImage": {"input": {"required": {"image": [[], {"image_upload": True}]}}}}
    )
    (finding,) = (await bind(kit, load_and_save("y.png"), LOCAL_USER, catalog)).findings
    assert finding.severity == "error"


async def test_of_a_list_that_is_not_told_nothing_is_sure(kit: Kit) -> None:
    graph = {"1": {"class_type": "LoadImageOutput", "inputs": {"image": "y.png"}}}
    assert [each.severity for each in (await bind(kit, graph, LOCAL_USER)).findings] == ["warning"]
    bound = await bind(kit, load_and_save("y.png"), LOCAL_USER, NodeCatalog())
    assert not bound.findings


@pytest.mark.parametrize(
    "reference",
    [
        asset("0199aaaa-0000-7000-8000-000000000000"),
        *(asset(each) for each in (None, 5, "", "photo.png", "../x", {"id": 1})),
        {"__type": "core/ASSET"},
        {"__type": "core/ASSET", "info": []},
    ],
)
async def test_a_reference_that_leads_nowhere_is_a_missing_asset(
    kit: Kit, reference: dict[str, Any]
) -> None:
    for owner in (ANN, LOCAL_USER):
        assert codes(await bind(kit, load_and_save(reference), owner)) == ["MISSING_ASSET"]


async def test_references_are_found_wherever_they_stand(kit: Kit) -> None:
    given = await kit.give("a.png", png())
    name = canonical_name(given.sha256, "a.png")
    graph = {
        "1": {
            "class_type": "Custom",
            "inputs": {"list": [asset(given.id), {"deep": [asset(given.id), 1]}], "n": 1},
        },
        "2": {"class_type": "Text", "inputs": {"text": asset(given.id)}},
    }
    bound = await bind(kit, graph)
    assert bound.workflow.nodes["1"].inputs == {"list": [name, {"deep": [name, 1]}], "n": 1}
    assert bound.workflow.nodes["2"].inputs == {"text": name}
    assert len(bound.inputs) == 1
    deep: Any = asset(given.id)
    for _ in range(5000):
        deep = [deep]
    assert not codes(await bind(kit, {"1": {"class_type": "Text", "inputs": {"text": deep}}}))


async def test_other_loaders_are_bound_too(kit: Kit) -> None:
    given = await kit.give("a.png", png())
    name = canonical_name(given.sha256, "a.png")
    graph = {"1": {"class_type": "LoadImageOutput", "inputs": {"image": "a.png"}}}
    assert image_of(await bind(kit, graph)) == name
    graph = {"1": {"class_type": "LoadLatent", "inputs": {"latent": "a.latent"}}}
    assert codes(await bind(kit, graph)) == ["MISSING_INPUT_FILE"]
    graph = {"1": {"class_type": "LoadImageDataSetFromFolder", "inputs": {"folder": "a"}}}
    assert codes(await bind(kit, graph)) == ["MISSING_INPUT_FILE"]
    assert not codes(await bind(kit, graph, LOCAL_USER))


async def test_a_name_that_a_node_makes_is_no_way_around(kit: Kit) -> None:
    graph = {
        "1": {"class_type": "LoadImage", "inputs": {"image": ["2", 0]}},
        "2": {"class_type": "Text", "inputs": {"text": "someone.png [output]"}},
    }
    assert codes(await bind(kit, graph)) == ["MISSING_INPUT_FILE"]
    assert not codes(await bind(kit, graph, LOCAL_USER))


async def test_loaders_are_known_before_any_worker_is(kit: Kit) -> None:
    bound = await bind(kit, load_and_save("someone.png"), catalog=NodeCatalog())
    assert codes(bound) == ["MISSING_INPUT_FILE"]


async def test_a_text_that_is_no_file_is_left_alone(kit: Kit) -> None:
    await kit.give("photo.png", png())
    graph = {"1": {"class_type": "Text", "inputs": {"text": "photo.png", "link": ["2", 0]}}}
    workflow = parse_workflow(graph)
    assert not find_references(workflow, CATALOG)


async def test_the_file_lies_where_workers_look_and_goes_after_its_last_job(kit: Kit) -> None:
    given = await kit.give("photo.png", png())
    bound = await bind(kit, load_and_save("photo.png"))
    assert not kit.input_files()
    await kit.inputs.put(bound.inputs)
    (name,) = kit.input_files()
    placed = kit.folder / "input" / name
    assert placed.read_bytes() == png()
    assert placed.stat().st_ino == await kit.inode_of(given)
    attempt = await kit.begin(*bound.inputs)
    await kit.assets.find_by_name(ANN, "photo.png")
    await kit.give("photo.png", png(2), same_name="replace")
    kit.clock.move(4000)
    await kit.sweeper.sweep()
    assert kit.input_files() == {name}
    await kit.finish(attempt)
    await kit.sweeper.sweep()
    assert not kit.input_files()


async def test_a_file_stays_while_its_job_is_being_stored(kit: Kit) -> None:
    await kit.give("photo.png", png())
    bound = await bind(kit, load_and_save("photo.png"))
    await kit.inputs.put(bound.inputs)
    await kit.give("photo.png", png(2), same_name="replace")
    await kit.sweeper.sweep()
    assert len(kit.input_files()) == 1
    kit.clock.move(4000)
    await kit.sweeper.sweep()
    assert not kit.input_files()


async def test_where_files_cannot_be_linked_they_are_copied(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("another disk")

    monkeypatch.setattr("os.link", refuse)
    given = await kit.give("photo.png", png())
    bound = await bind(kit, load_and_save("photo.png"))
    await kit.inputs.put(bound.inputs)
    (name,) = kit.input_files()
    placed = kit.folder / "input" / name
    assert placed.read_bytes() == png()
    assert placed.stat().st_ino != await kit.inode_of(given)
