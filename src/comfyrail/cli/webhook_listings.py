"""What `comfyrail webhooks` does."""

from collections.abc import Mapping, Sequence
from typing import Any

from comfyrail.cli.exits import FAILED, WRONG_USE, call_server, explain_and_exit
from comfyrail.cli.tables import add_row, ago, coloured, new_table, print_table
from comfyrail.cli.terminal import line, out, plain, say
from comfyrail.client import ComfyrailClient, Delivery, DeliveryDetail, Webhook, WebhookTest

Choice = dict[str, str | None]


def choice_of(webhook: str | None, job: str | None, event_type: str | None) -> Choice:
    return {"webhook_id": webhook, "execution_id": job, "type": event_type}


def options_of(
    events: list[str] | None,
    workflows: list[str] | None,
    description: str,
    headers: list[str] | None,
    template: str | None,
) -> dict[str, Any]:
    pairs = [header.partition("=") for header in headers or ()]
    for name, equals, _ in pairs:
        if not name or not equals:
            explain_and_exit("--header is like Authorization='Bearer abc'.", WRONG_USE)
    return {
        "events": events or [],
        "workflows": workflows or [],
        "description": description,
        "headers": {name: value for name, _, value in pairs},
        "template": template,
    }


def show_webhooks(server: str) -> None:
    async def ask() -> list[Webhook]:
        async with ComfyrailClient(server) as client:
            return await client.webhooks.all()

    found = call_server(ask())
    if not found:
        say(f"No webhooks. Add one with: comfyrail webhooks add URL --server {server}")
        return
    table = new_table("Id", "Address", "Events", "Workflows", "State", "Last success")
    for each in found:
        add_row(
            table,
            each.webhook_id,
            line(each.url),
            line(", ".join(each.events)) or "all but progress",
            line(", ".join(each.workflows)) or "all",
            _state(each),
            ago(each.last_success_at) if each.last_success_at else "",
        )
    print_table(table)


def add(server: str, url: str, options: Mapping[str, Any]) -> None:
    async def ask() -> tuple[str, str]:
        async with ComfyrailClient(server) as client:
            made = await client.webhooks.add(url, **options)
            return made.webhook.webhook_id, made.secret

    webhook_id, secret = call_server(ask())
    say(f"Webhook {webhook_id}")
    say(f"Secret  {secret}")
    say(f"The secret is not shown again. Try it: comfyrail webhooks test {webhook_id}")


def enable(server: str, webhook_id: str, *, is_enabled: bool) -> None:
    async def ask() -> Webhook:
        async with ComfyrailClient(server) as client:
            return await client.webhooks.change(webhook_id, {"enabled": is_enabled})

    call_server(ask())
    say(f"{line(webhook_id)} is {'enabled' if is_enabled else 'disabled'}.")


def remove(server: str, webhook_id: str) -> None:
    async def ask() -> None:
        async with ComfyrailClient(server) as client:
            await client.webhooks.delete(webhook_id)

    call_server(ask())
    say(f"Removed {line(webhook_id)}.")


def send_test(server: str, webhook_id: str) -> None:
    async def ask() -> WebhookTest:
        async with ComfyrailClient(server) as client:
            return await client.webhooks.test(webhook_id)

    test = call_server(ask())
    if not test.delivered:
        explain_and_exit(f"It did not arrive. {line(test.result.error or '')}", FAILED)
    answer = f", with status {test.result.status}" if test.result.status else ""
    say(f"It arrived in {test.result.duration:.3f} s{answer}.")


def rotate(server: str, webhook_id: str, overlap: float) -> None:
    async def ask() -> str:
        async with ComfyrailClient(server) as client:
            return (await client.webhooks.rotate(webhook_id, overlap)).secret

    say(call_server(ask()))


def show_secret(server: str, overlap: float | None) -> None:
    """`overlap`: replace it first."""

    async def ask() -> str:
        async with ComfyrailClient(server) as client:
            if overlap is not None:
                return (await client.webhooks.rotate_signing_secret(overlap)).secret
            return (await client.webhooks.signing_secret()).secret

    say(call_server(ask()))


def show_deliveries(server: str, filters: Mapping[str, str | None], limit: int) -> None:
    async def ask() -> list[Delivery]:
        found: list[Delivery] = []
        async with ComfyrailClient(server) as client:
            async for each in client.webhooks.deliveries(limit, **filters):
                found.append(each)
                if len(found) == limit:
                    break
        return found

    found = call_server(ask())
    if not found:
        say("Nothing was told yet." if not any(filters.values()) else "None like that.")
        return
    table = new_table("Id", "State", "Event", "Job", "To", "Tries", "Made", "Last answer")
    for each in found:
        add_row(
            table,
            each.delivery_id,
            coloured(each.state),
            each.type,
            each.execution_id or "",
            line(each.url or ""),
            str(each.attempts),
            ago(each.created_at),
            line(each.last_error or (str(each.last_status) if each.last_status else "")),
        )
    print_table(table)


def show_delivery(server: str, delivery_id: str) -> None:
    async def ask() -> DeliveryDetail:
        async with ComfyrailClient(server) as client:
            return await client.webhooks.delivery(delivery_id)

    shown = call_server(ask())
    delivery = shown.delivery
    say(f"{delivery.type} to {line(delivery.url or 'an address that is gone')}:", delivery.state)
    for each in shown.tries:
        answer = line(each.error or f"status {each.status}")
        when = each.timestamp.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        say(f"  {each.attempt}. {when}, {each.duration:.3f} s: {answer}")
    if delivery.next_attempt_at is not None:
        say(f"  Next try at {delivery.next_attempt_at.astimezone():%Y-%m-%d %H:%M:%S}.")
    if shown.body is not None:
        out.print(plain(shown.body), soft_wrap=True)


def redeliver(server: str, delivery_ids: Sequence[str], choice: Choice, *, is_all: bool) -> None:
    ways = [bool(delivery_ids), any(choice.values()), is_all]
    if sum(ways) != 1:
        explain_and_exit(
            "Say what to deliver: ids, or one of --webhook, --job and --type, or --all.", WRONG_USE
        )

    async def ask() -> int:
        async with ComfyrailClient(server) as client:
            for delivery_id in delivery_ids:
                await client.webhooks.redeliver(delivery_id)
            return len(delivery_ids) or await client.webhooks.redeliver_dead(**choice)

    say(f"{call_server(ask())} on their way again.")


def forget(server: str, choice: Choice, *, is_all: bool) -> None:
    if any(choice.values()) == is_all:
        explain_and_exit("Say what to forget: --webhook, --job or --type, or --all.", WRONG_USE)

    async def ask() -> int:
        async with ComfyrailClient(server) as client:
            return await client.webhooks.delete_dead(**choice)

    say(f"{call_server(ask())} forgotten.")


def _state(webhook: Webhook) -> str:
    if not webhook.enabled:
        return line(f"disabled: {webhook.disabled_reason}")
    if webhook.failing_since is not None:
        return f"failing since {ago(webhook.failing_since)}"
    return "enabled"
