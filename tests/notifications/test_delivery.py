"""From the event to the receiver: what is told, in which order, to whom [9.3]."""

from collections import defaultdict
from pathlib import Path

from comfyrail.jobs.events import EventType
from comfyrail.jobs.webhooks import JobWebhook
from comfyrail.store.notifications import DeliveryFilter, DeliveryState
from comfyrail.usecases.delivery_figures import DeliveryFigures
from tests.notifications.parts import ALICE, BOB, eventually, post_office, progress
from tests.services.webhook_receiver import answering, flaky, receiver, taking

DELIVERED = DeliveryState.DELIVERED


async def test_every_event_of_a_job_reaches_an_account_endpoint_in_order(tmp_path: Path) -> None:
    async with receiver() as site, post_office(tmp_path) as post:
        await post.endpoint(site.url)
        output = await post.output(b"PNG")
        job_id = await post.run(outputs=[output], workflow_id="poster@3")
        await eventually(lambda: len(site.taken) == 3)
        assert [call.json["type"] for call in site.taken] == [
            "execution.queued",
            "execution.started",
            "execution.completed",
        ]
        assert [call.number for call in site.taken] == [1, 2, 3]
        end = site.taken[-1]
        assert end.headers["x-execution-id"] == job_id == end.json["execution_id"]
        assert end.headers["x-webhook-event"] == "execution.completed"
        assert end.json["id"] == end.id
        assert end.json["status"] == "completed"
        assert end.json["workflow_id"] == "poster@3"
        assert end.json["error"] is None
        (told,) = end.json["outputs"]
        assert told["sha256"] == output.sha256
        assert told["url"] == f"/v1/workflows/execution/{job_id}/outputs/{output.id}"
        assert (await post.settled())[0].attempts == 1


async def test_a_failed_job_tells_its_error(tmp_path: Path) -> None:
    async with receiver() as site, post_office(tmp_path) as post:
        await post.endpoint(site.url, events=["execution.failed"])
        await post.fail()
        await eventually(lambda: site.taken)
        assert site.taken[0].json["error"]["code"] == "NODE_FAILED"
        assert site.taken[0].json["status"] == "failed"


async def test_loud_events_go_only_to_those_who_name_them_or_ask_for_all(tmp_path: Path) -> None:
    async with (
        receiver() as usual,
        receiver() as named,
        receiver() as every,
        post_office(tmp_path) as post,
    ):
        await post.endpoint(usual.url)
        await post.endpoint(named.url, events=["execution.progress"])
        await post.endpoint(every.url, events=["*"])
        await post.run(events=[progress(0.5), progress(0.7)])
        await post.settled()
        assert [call.number for call in usual.taken] == [1, 2, 5]
        assert [call.number for call in named.taken] == [3, 4]
        assert [call.number for call in every.taken] == [1, 2, 3, 4, 5]


async def test_filters_by_workflow_and_surface_leave_out_other_jobs(tmp_path: Path) -> None:
    async with receiver() as site, post_office(tmp_path) as post:
        await post.endpoint(site.url, workflows=["poster"], events=["execution.queued"])
        await post.endpoint(site.url, workflows=["poster@2"], events=["execution.queued"])
        await post.endpoint(site.url, surfaces=["tasks"], events=["execution.queued"])
        await post.job(workflow_id="poster@3")
        await post.job(workflow_id="poster@2")
        await post.job(workflow_id="other@2")
        await post.job()
        await post.settled()
        told = sorted(call.json["workflow_id"] for call in site.taken)
        assert told == ["poster@2", "poster@2", "poster@3"]


async def test_another_tenant_is_told_nothing_and_sees_nothing(tmp_path: Path) -> None:
    async with receiver() as site, post_office(tmp_path) as post:
        mine = await post.endpoint(site.url)
        await post.run(BOB)
        await post.run(ALICE)
        await eventually(lambda: len(site.taken) == 3)
        await post.settled()
        assert len(site.calls) == 3
        assert await post.webhooks.list(BOB) == []
        assert await post.deliveries(BOB) == []
        assert await post.deliveries(BOB, endpoint_id=mine.id) == []


async def test_a_job_tells_its_own_webhook_of_its_end_and_says_so(tmp_path: Path) -> None:
    async with receiver() as site, post_office(tmp_path) as post:
        webhook = JobWebhook(url=site.url, method="PUT", headers={"X-Mine": "yes"})
        job_id = await post.job(webhook=webhook)
        assert (await post.store.get_job(ALICE.tenant, job_id)).webhook_delivered is None
        wishes = await post.store.wishes_of(ALICE.tenant, job_id)
        assert wishes.webhook == webhook
        await post.store.request_cancel(ALICE.tenant, job_id)
        await post.wait_for_states(DELIVERED)
        (call,) = site.taken
        assert (call.method, call.headers["x-mine"]) == ("PUT", "yes")
        assert call.json["type"] == "execution.cancelled"
        assert (await post.store.get_job(ALICE.tenant, job_id)).webhook_delivered is True
        assert await post.webhooks.list(ALICE) == []


async def test_a_webhook_that_is_down_leaves_the_job_undelivered(tmp_path: Path) -> None:
    async with post_office(tmp_path) as post:
        webhook = JobWebhook(url="http://127.0.0.1:9/hook", max_retries=0)
        job_id = await post.run(webhook=webhook)
        (dead,) = await post.wait_for_states(DeliveryState.DEAD)
        assert dead.last_error is not None
        assert "nothing answers there" in dead.last_error
        assert (await post.store.get_job(ALICE.tenant, job_id)).webhook_delivered is False


async def test_events_of_one_job_wait_for_the_earlier_ones_and_other_jobs_do_not(
    tmp_path: Path,
) -> None:
    async with receiver(flaky(1)) as site, post_office(tmp_path) as post:
        await post.endpoint(site.url)
        jobs = [await post.run(events=[progress(0.1)]) for _ in range(4)]
        await post.settled()
        by_job = defaultdict(list)
        for call in site.taken:
            by_job[call.job].append(call.number)
        assert by_job == {job_id: [1, 2, 4] for job_id in jobs}
        ids = [call.id for call in site.taken]
        assert len(ids) == len(set(ids)) == 12
        assert all(len({call.body for call in site.calls if call.id == each}) == 1 for each in ids)


async def test_different_jobs_go_in_parallel_and_no_more_than_eight_at_once(
    tmp_path: Path,
) -> None:
    async with receiver(taking(0.1)) as site, post_office(tmp_path) as post:
        await post.endpoint(site.url, events=["execution.queued"])
        for _ in range(24):
            await post.job()
        await eventually(lambda: len(site.taken) == 24)
        assert 2 <= site.most_at_once <= 8


async def test_a_slow_endpoint_holds_up_no_other(tmp_path: Path) -> None:
    async with receiver(taking(30)) as slow, receiver() as quick, post_office(tmp_path) as post:
        await post.endpoint(slow.url, timeout=60)
        await post.endpoint(quick.url)
        jobs = 20
        for _ in range(jobs):
            await post.run()
        await eventually(lambda: len(quick.taken) == 3 * jobs)
        assert len(slow.calls) <= 8


async def test_what_was_under_way_at_the_end_comes_again_under_the_same_id(
    tmp_path: Path,
) -> None:
    async with receiver(taking(60)) as site:
        async with post_office(tmp_path) as post:
            await post.endpoint(site.url, events=["execution.queued"])
            await post.job()
            await eventually(lambda: site.calls)
        site.behave = flaky(0)
        async with post_office(tmp_path) as post:
            await post.settled()
        assert len({call.id for call in site.calls}) == 1
        assert len({call.body for call in site.calls}) == 1


async def test_fields_and_templates_shape_the_body(tmp_path: Path) -> None:
    async with receiver() as site, post_office(tmp_path) as post:
        quote = 'a "quoted" text\n{{ id }}'
        await post.endpoint(
            site.url, fields=["id", "outputs.filename", "nothing.here"], events=["*"]
        )
        await post.endpoint(
            site.url,
            template='{"text": "{{ workflow_id }} is {{ status }}", "n": {{ number }}, '
            '"all": {{ outputs }}}',
            events=[EventType.COMPLETED],
        )
        await post.endpoint(
            site.url, template="{{ outputs.0.filename }}|{{ gone }}|", events=[EventType.COMPLETED]
        )
        await post.run(outputs=[await post.output(b"x", "pic.png")], workflow_id=quote)
        await post.settled()
        ends = [
            call for call in site.taken if call.headers["x-webhook-event"].endswith("completed")
        ]
        fields, template, text = sorted(
            ends, key=lambda call: int(call.id[4:].replace("-", ""), 16)
        )
        assert fields.json == {"id": fields.id, "outputs": [{"filename": "pic.png"}]}
        assert template.json["text"] == f"{quote} is completed"
        assert template.json["n"] == 3
        assert template.json["all"][0]["filename"] == "pic.png"
        assert text.body == b"pic.png||"
        assert text.headers["content-type"].startswith("text/plain")


async def test_monitoring_sees_what_waits_what_is_dead_and_how_tries_went(tmp_path: Path) -> None:
    async with receiver(answering(422)) as site, post_office(tmp_path) as post:
        await post.endpoint(site.url)
        await post.run()
        await post.settled()
        figures = await DeliveryFigures(post.store, post.courier.counts)()
        shown = {
            (figure.name, *sample.labels.values()): sample.value
            for figure in figures
            for sample in figure.samples
        }
        assert shown["comfyrail_deliveries", "pending"] == 0
        assert shown["comfyrail_deliveries", "dead"] == 3
        assert shown["comfyrail_delivery_tries", "refused"] == 3
        assert shown["comfyrail_delivery_tries", "delivered"] == 0


async def test_what_is_written_while_nobody_listens_costs_no_rows(tmp_path: Path) -> None:
    async with post_office(tmp_path, is_at_work=False) as post:
        await post.run()
        endpoint = await post.endpoint("http://127.0.0.1:9/")
        await post.webhooks.delete(ALICE, endpoint.id)
        await post.run()
        assert await post.deliveries() == []


async def test_deliveries_are_listed_page_by_page(tmp_path: Path) -> None:
    async with post_office(tmp_path, is_at_work=False) as post:
        await post.endpoint("http://127.0.0.1:9/")
        jobs = [await post.run() for _ in range(3)]
        first = await post.webhooks.deliveries(ALICE, DeliveryFilter(), None, 5)
        assert first.next_cursor is not None
        rest = await post.webhooks.deliveries(ALICE, DeliveryFilter(), first.next_cursor, 5)
        found = [*first.deliveries, *rest.deliveries]
        assert [each.sequence for each in found] == sorted(
            (each.sequence for each in found), reverse=True
        )
        assert (len(found), rest.next_cursor) == (9, None)
        only = await post.deliveries(job_id=jobs[1], type="execution.started")
        assert [(each.job_id, each.number) for each in only] == [(jobs[1], 2)]
