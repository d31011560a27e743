"""`comfyrail webhooks`: whom an account tells of its jobs."""

from typing import Annotated

import typer

from comfyrail.cli.options import DEFAULT_SERVER, LimitOption, SameServerOption, ServerOption

webhooks_app = typer.Typer(help="Tell others of what happens to jobs, and see what was told.")

WebhookArgument = Annotated[str, typer.Argument(help="The webhook's id, as the list shows it.")]
EventOption = Annotated[
    list[str] | None,
    typer.Option("--event", help="Only these, such as execution.completed; * is all. Repeatable."),
]
WorkflowOption = Annotated[
    list[str] | None,
    typer.Option("--workflow", help="Only jobs of this workflow of the library; repeatable."),
]
OfWebhookOption = Annotated[
    str | None, typer.Option("--webhook", help="Only those of this webhook.")
]
OfJobOption = Annotated[str | None, typer.Option("--job", help="Only those of this job.")]
TypeOption = Annotated[
    str | None, typer.Option("--type", help="Only of this event, such as execution.failed.")
]
OverlapOption = Annotated[
    float,
    typer.Option(min=0, max=604800, help="Seconds for which the secret before signs too."),
]


@webhooks_app.callback(invoke_without_command=True)
def webhooks(context: typer.Context, server: ServerOption = DEFAULT_SERVER) -> None:
    """List the webhooks."""
    context.obj = server
    if context.invoked_subcommand is None:
        list_webhooks(context, server=server)


@webhooks_app.command("list")
def list_webhooks(context: typer.Context, server: SameServerOption = None) -> None:
    """List the webhooks."""
    from comfyrail.cli import webhook_listings

    webhook_listings.show_webhooks(server or context.obj)


@webhooks_app.command("add")
def add_webhook(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="https://…, mailto:somebody@… or sms:+49…")],
    event: EventOption = None,
    workflow: WorkflowOption = None,
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    header: Annotated[
        list[str] | None, typer.Option(help="Sent along, as NAME=VALUE; repeatable.")
    ] = None,
    template: Annotated[
        str | None, typer.Option(help="A text in the body's place, with {{ paths.of.fields }}.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Take any certificate from it.")
    ] = False,
    server: SameServerOption = None,
) -> None:
    """Add a webhook; prints its id and its secret, which is shown this once."""
    from comfyrail.cli import webhook_listings

    options = webhook_listings.options_of(event, workflow, description, header, template)
    webhook_listings.add(server or context.obj, url, {**options, "verify_ssl": not insecure})


@webhooks_app.command("enable")
def enable_webhook(
    context: typer.Context, webhook_id: WebhookArgument, server: SameServerOption = None
) -> None:
    """Tell a webhook again that was disabled."""
    from comfyrail.cli import webhook_listings

    webhook_listings.enable(server or context.obj, webhook_id, is_enabled=True)


@webhooks_app.command("disable")
def disable_webhook(
    context: typer.Context, webhook_id: WebhookArgument, server: SameServerOption = None
) -> None:
    """Tell a webhook nothing more; what waits for it becomes dead letters."""
    from comfyrail.cli import webhook_listings

    webhook_listings.enable(server or context.obj, webhook_id, is_enabled=False)


@webhooks_app.command("remove")
def remove_webhook(
    context: typer.Context, webhook_id: WebhookArgument, server: SameServerOption = None
) -> None:
    """Remove a webhook with its deliveries and dead letters."""
    from comfyrail.cli import webhook_listings

    webhook_listings.remove(server or context.obj, webhook_id)


@webhooks_app.command("test")
def send_test(
    context: typer.Context, webhook_id: WebhookArgument, server: SameServerOption = None
) -> None:
    """Send a test message now, and say what came of it."""
    from comfyrail.cli import webhook_listings

    webhook_listings.send_test(server or context.obj, webhook_id)


@webhooks_app.command("rotate")
def rotate_secret(
    context: typer.Context,
    webhook_id: WebhookArgument,
    overlap: OverlapOption = 86_400.0,
    server: SameServerOption = None,
) -> None:
    """Replace the secret of a webhook, and print the new one."""
    from comfyrail.cli import webhook_listings

    webhook_listings.rotate(server or context.obj, webhook_id, overlap)


@webhooks_app.command("secret")
def show_secret(
    context: typer.Context,
    rotate: Annotated[bool, typer.Option("--rotate", help="Replace it first.")] = False,
    overlap: OverlapOption = 86_400.0,
    server: SameServerOption = None,
) -> None:
    """Print the secret that signs for jobs with a webhook of their own and no secret."""
    from comfyrail.cli import webhook_listings

    webhook_listings.show_secret(server or context.obj, overlap if rotate else None)


@webhooks_app.command("deliveries")
def list_deliveries(
    context: typer.Context,
    state: Annotated[
        str | None, typer.Option(help="Only pending, delivered, dead or cancelled ones.")
    ] = None,
    webhook: OfWebhookOption = None,
    job: OfJobOption = None,
    event_type: TypeOption = None,
    limit: LimitOption = 50,
    server: SameServerOption = None,
) -> None:
    """List what was told or is to be, newest first."""
    from comfyrail.cli import webhook_listings

    choice = webhook_listings.choice_of(webhook, job, event_type)
    webhook_listings.show_deliveries(server or context.obj, {**choice, "state": state}, limit)


@webhooks_app.command("delivery")
def show_delivery(
    context: typer.Context,
    delivery_id: Annotated[str, typer.Argument(help="The delivery's id.")],
    server: SameServerOption = None,
) -> None:
    """Show one delivery with its body and every try."""
    from comfyrail.cli import webhook_listings

    webhook_listings.show_delivery(server or context.obj, delivery_id)


@webhooks_app.command("dead")
def list_dead_letters(
    context: typer.Context,
    webhook: OfWebhookOption = None,
    job: OfJobOption = None,
    event_type: TypeOption = None,
    limit: LimitOption = 50,
    server: SameServerOption = None,
) -> None:
    """List what could not be delivered."""
    from comfyrail.cli import webhook_listings

    choice = webhook_listings.choice_of(webhook, job, event_type)
    webhook_listings.show_deliveries(server or context.obj, {**choice, "state": "dead"}, limit)


@webhooks_app.command("redeliver")
def redeliver(
    context: typer.Context,
    delivery_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Deliveries to send once more.")
    ] = None,
    webhook: OfWebhookOption = None,
    job: OfJobOption = None,
    event_type: TypeOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All dead letters.")] = False,
    server: SameServerOption = None,
) -> None:
    """Deliver once more: some by their ids, dead letters by what they are, or all of them."""
    from comfyrail.cli import webhook_listings

    choice = webhook_listings.choice_of(webhook, job, event_type)
    webhook_listings.redeliver(server or context.obj, delivery_ids or [], choice, is_all=everything)


@webhooks_app.command("forget")
def forget_dead_letters(
    context: typer.Context,
    webhook: OfWebhookOption = None,
    job: OfJobOption = None,
    event_type: TypeOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All dead letters.")] = False,
    server: SameServerOption = None,
) -> None:
    """Forget dead letters."""
    from comfyrail.cli import webhook_listings

    choice = webhook_listings.choice_of(webhook, job, event_type)
    webhook_listings.forget(server or context.obj, choice, is_all=everything)
