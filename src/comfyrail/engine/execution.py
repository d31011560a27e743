"""One execution of a graph: hand out what is ready, take what comes back, until all is done."""

import asyncio
import inspect
import secrets
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from comfyrail.engine.caching.result import CachedResult, Slot, copy_containers
from comfyrail.engine.checkpoint import Checkpoint
from comfyrail.engine.definition import NodeResult
from comfyrail.engine.events import (
    Event,
    ExecutionInterrupted,
    ExecutionStarted,
    ExecutionSucceeded,
    NodeBlocked,
    NodeExecuted,
    NodeFinished,
    NodesAdded,
    NodesCached,
    NodeStarted,
    Sink,
)
from comfyrail.engine.expansions import Expansions
from comfyrail.engine.failures import DependencyCycleError, UnservedInput, failed_event
from comfyrail.engine.fused_chains import ChainLink, ChainRun, FusedChains, is_fusable
from comfyrail.engine.hooks import NodeVisit
from comfyrail.engine.interrupt import ExecutionHalted, Interrupt
from comfyrail.engine.invocations import Invocations
from comfyrail.engine.invoke import NodeExited, join_results
from comfyrail.engine.joined_calls import JoinedCalls, JoinedNode, Member
from comfyrail.engine.keys import KeyBook
from comfyrail.engine.known_results import KnownResults, files_are_there, with_files
from comfyrail.engine.live_graph import BoundNode, LiveGraph, upstream_first
from comfyrail.engine.plan import Plan
from comfyrail.engine.recovery import Recovery
from comfyrail.engine.run_parts import RunParts
from comfyrail.engine.run_values import RunValues
from comfyrail.engine.runners.interface import (
    KeptElsewhere,
    LostInputs,
    NodeTask,
    Outcome,
    RunHere,
)

if TYPE_CHECKING:
    from comfyrail.engine.executor import Executor

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ExecutionRequest:
    """A prompt that `check_prompt` found good, and the outputs that are wanted of it."""

    prompt: Mapping[str, Any]
    outputs: Sequence[str]
    extra_data: Mapping[str, Any]
    execution_id: str = ""
    secrets: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What only nodes that ask for it may see, such as keys of other services."""
    keeps_values: bool = False
    """Whether the values of the wanted nodes are kept for whoever asked."""


class Execution:
    """Owned by the thread that executes; its coroutines run on that thread's event loop.

    Every node goes this way: the plan hands it out (`_begin`), its inputs are gathered
    (`_prepare`), the runner runs it (`_start`), and its result is kept and shown (`_finish`). On
    the way it may be put back to wait for more: for lazy inputs, for nodes that it expands into,
    for values that were lost.
    """

    def __init__(
        self, engine: "Executor", request: ExecutionRequest, emit: Sink, interrupt: Interrupt
    ) -> None:
        """Raises ConfigurationError for options that the request should not have."""
        self.engine = engine
        self.execution_id = request.execution_id
        self.prompt = request.prompt
        self.extra_data = request.extra_data
        self.secrets = request.secrets
        self.interrupt = Interrupt()
        """This execution's own: it is set by a failure, too."""
        self._asked_to_stop = interrupt
        self.calls = None if engine.surroundings.one_at_a_time else interrupt.calls
        """None where nodes share globals, which one that is broken off would leave half changed."""
        self._wanted = request.outputs
        self._keeps_values = request.keeps_values
        self.kept_values: dict[str, tuple[Slot, ...]] = {}
        self._sink: Sink | None = emit
        self._options = options = engine.check_options(request.extra_data)
        self._runner = engine.runner_for(options)
        self._width = self._runner.width if options.optimizer.branches else 1
        self.graph = LiveGraph(request.prompt, engine.registry.view())
        name = options.checkpoint
        self.checkpoint: Checkpoint | None = None if name is None else engine.open_checkpoint(name)
        self._nonce = secrets.token_hex(16) if self.checkpoint is None else self.checkpoint.nonce
        self._keys = KeyBook(self.graph, engine.folders, self._nonce)
        saved = {} if self.checkpoint is None else self.checkpoint.results
        self._known = KnownResults(engine.cache, saved, engine.folders)
        self._values = RunValues(self.graph, self._keys, self._known, engine.value_store())
        self._invocations = Invocations(self, self._values)
        self._recovery = Recovery(options.policies, options.default_policy, self.graph)
        self._plan = Plan(
            lambda node_id: self.graph[node_id].eager_sources(),
            self._values.are_there,
            self._is_urgent,
            "memory" if options.strategy == "lazy" else options.optimizer.order,
        )
        self._asked: dict[str, set[str]] = {}
        self._attempts: dict[str, int] = {}
        """Nodes that are run again, and which time it is."""
        self._shown: dict[str, CachedResult] = {}
        """Results of nodes that showed something."""
        self._under_way: dict[str, list[str]] = {}
        parts = RunParts(
            self.graph,
            self._keys,
            self._known,
            self._values,
            self._plan,
            self._invocations,
            self._under_way,
        )
        self._parts = parts
        self._expansions = Expansions(parts)
        self._joined = JoinedCalls(parts)
        self._chains = FusedChains(parts)
        self._tainted: set[str] = set()
        """Nodes whose values are stand-ins, or come of some: they are not kept for other runs."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._executed: list[str] = []
        self._finished: list[str] = []
        self._end: Event | None = None

    def emit(self, event: Event) -> None:
        """Report; from any thread. What comes after the end goes nowhere."""
        if self._sink is not None:
            self._sink(event)

    async def run(self) -> None:
        """Run to the end; how it ended is the last event. Raises nothing that a node raises."""
        engine = self.engine
        self.emit(ExecutionStarted(engine.clock.now()))
        engine.cache.begin_turn()
        engine.hooks.before_execution(self.execution_id)
        self._asked_to_stop.listen(partial(self._on_interrupt, asyncio.get_running_loop()))
        try:
            with engine.surroundings.execution(self):
                await self._survey()
                await self._carry_out()
                await self._let_go_of_tasks()
            if self._keeps_values:
                self._keep_wanted()
            end = self._end or ExecutionSucceeded(engine.clock.now())
            succeeded = isinstance(end, ExecutionSucceeded)
            if self.checkpoint is not None and succeeded:
                self.checkpoint.remove()
            self.emit(end)
            engine.hooks.after_execution(self.execution_id, succeeded=succeeded)
        finally:
            self._sink = None
            self._asked_to_stop.listen(None)
            self._values.close()
            if self.checkpoint is not None:
                self.checkpoint.close()

    def key_of(self, node_id: str) -> str:
        return self._keys[node_id]

    def tell_blocked(self, node: BoundNode, message: str) -> None:
        """A call of the node did not take place; from any thread."""
        self.emit(NodeBlocked(node.id, node.definition.name, message, tuple(self._executed)))

    def _keep_wanted(self) -> None:
        for node_id in self._wanted:
            slots = self._values.get(node_id) if self._end is None else None
            if slots is not None:
                self.kept_values[node_id] = tuple([copy_containers(slot) for slot in slots])

    # Before anything runs

    async def _survey(self) -> None:
        """Find out what need not run, tell of it, and plan the rest."""
        try:
            order = upstream_first(self.graph, self._wanted)
            await self._keys.make(order)
        except Exception as error:  # noqa: BLE001 - a foreign class failed to describe itself
            self._fail(None, {}, error)
            return
        self._known.look_for(map(self._keys.__getitem__, order))
        shown = self._show_known(self._wanted)
        known = [node_id for node_id in order if self._keys[node_id] in self._known]
        self._finished.extend(known)
        if self.engine.hooks:
            self._visit_known(known)
        self.emit(NodesCached(known, self.engine.clock.now()))
        for event in shown:
            self.emit(event)
        if self._keeps_values:
            self._values.expect_reader(self._wanted)
            for node_id in self._wanted:
                # Now, as what is only known may be gone at the end.
                if self._values.are_there(node_id):
                    self._values.get(node_id)
        self._values.expect(self._plan.demand(self._wanted))
        if not self._options.optimizer.dead_nodes:
            await self._plan_the_dead(order)

    def _show_known(self, outputs: Iterable[str]) -> list[Event]:
        """What tells of outputs that need not run; those whose files are gone must run."""
        shown: list[Event] = []
        for node_id in outputs:
            key = self._keys[node_id]
            result = self._known.load_shown(key) if key in self._known else None
            if result is not None:
                if result.ui is not None:
                    shown.append(NodeExecuted(node_id, result.ui))
                shown.append(NodeFinished(node_id, cached=True))
        return shown

    async def _plan_the_dead(self, needed: Sequence[str]) -> None:
        """Run what no wanted output needs, too. It was not checked, so it may fail."""
        dead = set(self.prompt).difference(needed)
        try:
            order = upstream_first(self.graph, sorted(dead))
            await self._keys.make(order)
        except Exception as error:  # noqa: BLE001 - it may be anything
            log.debug("dead_nodes_left_out", error=str(error))
            return
        self._recovery.not_needed = frozenset(dead)
        self._values.expect(self._plan.demand(dead))

    def _is_urgent(self, node_id: str) -> bool:
        definition = self.graph[node_id].definition
        return definition.is_output or definition.is_async

    # The loop

    async def _carry_out(self) -> None:
        plan = self._plan
        while self._end is None:
            node_id = plan.next_ready() if len(self._tasks) < self._width else None
            if node_id is not None:
                self._begin(node_id)
                if self._tasks:
                    await asyncio.sleep(0)
            elif self._tasks:
                await self._woken.wait()
                self._woken.clear()
                if self.interrupt.requested:
                    self._end = self._interrupted_at(None)
            elif len(plan):
                self._blame_cycle(plan.stuck_nodes())
            else:
                return

    def _begin(self, node_id: str) -> None:
        node = self.graph[node_id]
        inputs: dict[str, Slot] = {}
        try:
            self.interrupt.check()
            if node_id in self._expansions:
                self._complete_expanded(node)
            elif not self._is_done_by_another(node):
                prepared = self._prepare(node)
                if prepared is not None:
                    inputs = prepared
                    self._start(node, inputs)
        except ExecutionHalted:
            self._end = self._interrupted_at(node)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a node raises is its failure
            self._on_error(node, inputs, error)

    def _prepare(self, node: BoundNode) -> dict[str, Slot] | None:
        """The inputs of a node that is to run now; None when it must wait for more."""
        definition = node.definition
        inputs: dict[str, Slot] = {}
        if definition.lazy_inputs or not self._runner.is_remote(node):
            gathered = self._invocations.gather(node, self._asked.get(node.id, ()))
            if isinstance(gathered, list):
                self._parts.postpone(node.id, gathered)
                return None
            inputs = gathered
        self._announce(node, inputs)
        if definition.check_lazy is not None or definition.instantiate is not None:
            asked = self._invocations.ask_what_is_needed(node, inputs)
            if inspect.isawaitable(asked):
                self._spawn(self._begin_after_asking(node, inputs, asked))
                return None
            if asked and self._wait_for_asked(node, asked):
                return None
        return inputs

    def _start(self, node: BoundNode, inputs: Mapping[str, Slot]) -> None:
        """Run a node whose inputs are there: at once, or as a task."""
        if self.engine.asks_others(node.definition):
            self._spawn(self._run_once_among_all(node, inputs))
            return
        self._under_way.setdefault(self._keys[node.id], [])
        self._values.pin_inputs(node)
        began = time.perf_counter()
        if node.id not in self._attempts and self._is_run_with_others(node, inputs):
            return
        outcome = self._runner.start(self._task_of(node, inputs))
        if isinstance(outcome, list | KeptElsewhere):
            self._take_outcome(node, outcome, time.perf_counter() - began)
        else:
            self._spawn(self._finish_later(node, inputs, outcome, began))

    def _is_run_with_others(self, node: BoundNode, inputs: Mapping[str, Slot]) -> bool:
        """Run a node together with alike ones, or with the cheap ones behind it, if there are."""
        switches = self._options.optimizer
        if node.definition.batches and switches.batch and not self._runner.is_remote(node):
            members = self._joined.members(node, inputs)
            if members and self._runner.fuses:
                self._spawn(self._run_joined(members))
            elif members:
                self._take_joined(members, self._joined.run(members))
            return bool(members)
        if self._runner.fuses and switches.fuse and is_fusable(node.definition):
            chain = self._chains.followers(node)
            if chain:
                self._spawn(self._run_chain(node, inputs, chain))
                return True
        return False

    async def _run_joined(self, members: Sequence[Member]) -> None:
        node, inputs = members[0]
        try:
            joined = await self._runner.run_call(lambda: self._joined.run(members), node.definition)
            self._take_joined(members, joined)
        except Exception as error:  # noqa: BLE001 - it could not be run at all
            for other, _ in members[1:]:
                self._plan.make_ready(other.id)
            self._on_error(node, inputs, error)

    def _take_joined(self, members: Sequence[Member], joined: Sequence[JoinedNode] | None) -> None:
        if joined is None:
            self._under_way.pop(self._keys[members[0][0].id], None)
            for node, _ in members:
                self._attempts.setdefault(node.id, 1)
                self._plan.make_ready(node.id)
            return
        for number, (member, given, result) in enumerate(joined):
            if number:
                self._announce(member, given)
            self._finish(member, result)

    async def _run_chain(
        self, node: BoundNode, inputs: Mapping[str, Slot], chain: Sequence[ChainLink]
    ) -> None:
        members = [node, *(link.node for link in chain)]
        try:
            first = self._invocations.make(node, inputs)
            done = await self._runner.run_call(
                lambda: self._chains.run(first, node, chain), node.definition
            )
        except Exception as error:  # noqa: BLE001 - it could not be run at all
            done = ChainRun([], [inputs], error)
        for number, (member, result) in enumerate(zip(members, done.results, strict=False)):
            if number:
                self._announce(member, done.inputs[number])
            self._finish(member, result)
        if done.error is not None:
            failed = len(done.results)
            for member in members[failed + 1 :]:
                self._plan.let_back(member.id)
            given = done.inputs[failed] if failed < len(done.inputs) else {}
            if failed:
                self._announce(members[failed], given)
            self._on_error(members[failed], given, done.error)

    async def _finish_later(
        self,
        node: BoundNode,
        inputs: Mapping[str, Slot],
        outcome: Any,
        began: float,
    ) -> None:
        try:
            taken: Outcome = await outcome
            self._take_outcome(node, taken, time.perf_counter() - began)
        except LostInputs as lost:
            self._under_way.pop(self._keys[node.id], None)
            self._parts.postpone(node.id, self._values.lose(node, lost.keys))
        except RunHere:
            self._under_way.pop(self._keys[node.id], None)
            self._runner.keep_here(node)
            self._plan.make_ready(node.id)
        except ExecutionHalted:
            self._end = self._end or self._interrupted_at(node)
        except Exception as error:  # noqa: BLE001 - whatever a node raises is its failure
            self._on_error(node, inputs, error)

    async def _run_once_among_all(self, node: BoundNode, inputs: Mapping[str, Slot]) -> None:
        """Run a node unless another thread or process does so: then take what that one makes."""
        try:
            flight: CachedResult | AbstractContextManager[object]
            flight = await self.engine.single_flight(self._keys[node.id], self.interrupt)
            if isinstance(flight, CachedResult):
                if files_are_there(flight, self.engine.folders):
                    self._finish(node, flight, cached=True)
                    return
                flight = nullcontext()
            with flight:
                self._under_way.setdefault(self._keys[node.id], [])
                self._values.pin_inputs(node)
                began = time.perf_counter()
                outcome = self._runner.start(self._task_of(node, inputs))
                if isinstance(outcome, list | KeptElsewhere):
                    self._take_outcome(node, outcome, time.perf_counter() - began)
                else:
                    await self._finish_later(node, inputs, outcome, began)
        except ExecutionHalted:
            self._end = self._end or self._interrupted_at(node)
        except Exception as error:  # noqa: BLE001 - whatever a node raises is its failure
            self._on_error(node, inputs, error)

    def _task_of(self, node: BoundNode, inputs: Mapping[str, Slot]) -> NodeTask:
        key = self._keys[node.id]
        if not self._runner.is_remote(node):
            return NodeTask(self.execution_id, node, key, {}, self._invocations.make(node, inputs))
        sources = {name: (self._keys[link.source], link.slot) for name, link in node.links.items()}
        return NodeTask(self.execution_id, node, key, sources, None)

    # Tasks

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._woken.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, ExecutionHalted):
                self._end = self._end or self._interrupted_at(None)
                return
            log.error("execution_task_failed", exc_info=error)
            self._fail(None, {}, error)

    def _on_interrupt(self, loop: asyncio.AbstractEventLoop) -> None:
        self.interrupt.request()
        self.engine.surroundings.interrupt()
        try:
            loop.call_soon_threadsafe(self._woken.set)
        except RuntimeError:
            log.debug("interrupt_after_the_end", execution_id=self.execution_id)

    async def _let_go_of_tasks(self) -> None:
        """After a failure or an interrupt: let what runs see it, and wait until it has ended."""
        if self._tasks:
            self._asked_to_stop.listen(None)
            self.interrupt.request()
            self.engine.surroundings.interrupt()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    # Lazy inputs

    async def _begin_after_asking(
        self, node: BoundNode, inputs: Mapping[str, Slot], asked: Any
    ) -> None:
        try:
            if not self._wait_for_asked(node, await asked):
                self._start(node, inputs)
        except ExecutionHalted:
            self._end = self._end or self._interrupted_at(node)
        except Exception as error:  # noqa: BLE001 - whatever a node raises is its failure
            self._on_error(node, inputs, error)

    def _wait_for_asked(self, node: BoundNode, names: Sequence[str]) -> bool:
        """Let a node wait for the inputs that it asks for; False when all are there."""
        asked = self._asked.setdefault(node.id, set())
        missing = [name for name in names if _is_missing(node, name, asked)]
        for name in missing:
            if name not in node.links:
                raise UnservedInput(
                    f"Node '{node.id}' asks for its input '{name}', but the graph gives it none."
                )
        asked.update(missing)
        if missing:
            self._parts.postpone(node.id, [node.links[name].source for name in missing])
        return bool(missing)

    # Results

    def _take_outcome(self, node: BoundNode, outcome: Outcome, seconds: float) -> None:
        if isinstance(outcome, KeptElsewhere):
            self._known.add(self._keys[node.id])
            self.engine.note_cost(node.definition, outcome.seconds)
            self._values.let_go(node)
            self._show_result(node, CachedResult((), outcome.ui, outcome.seconds), cached=False)
            return
        for result in outcome:
            if result.expand is not None:
                self._spawn(self._expand(node, outcome))
                return
        self._finish(node, join_results(node.definition, outcome, seconds))

    def _finish(self, node: BoundNode, result: CachedResult, *, cached: bool = False) -> None:
        """Keep a result, show it, and let the nodes go on that wait for it."""
        node_id = node.id
        if result.ui is not None and not cached:
            result = with_files(result, self.engine.folders)
            self._shown[node_id] = result
        if self._tainted:
            self._taint_from_sources(node)
        if node_id not in self._tainted:
            key = self._keys[node_id]
            definition = node.definition
            if not cached and (definition.keeps or definition.expands):
                self.engine.cache.put(key, result)
                if self.engine.cache.is_shared:
                    self.engine.note_cost(definition, result.seconds)
                self._known.add(key)
            if self.checkpoint is not None:
                self.checkpoint.save(key, result)
        # First, so that what is freed by it need not be moved to disk to make room.
        self._values.let_go(node)
        self._values.keep(node_id, result.slots)
        self._show_result(node, result, cached=cached)

    def _show_result(self, node: BoundNode, result: CachedResult, *, cached: bool) -> None:
        node_id = node.id
        if not cached:
            self._executed.append(node_id)
        self._finished.append(node_id)
        if result.ui is not None:
            self.emit(NodeExecuted(node_id, result.ui))
        self.emit(NodeFinished(node_id, cached=cached))
        self._visited(node, "cached" if cached else "completed", result)
        self._plan.finish(node_id)
        for waiting in self._under_way.pop(self._keys[node_id], ()):
            self._plan.make_ready(waiting)

    def _is_done_by_another(self, node: BoundNode) -> bool:
        """Whether a node of the same key runs, or has run, in this execution."""
        if not self._options.optimizer.common_subexpressions:
            return False
        key = self._keys[node.id]
        waiting = self._under_way.get(key)
        if waiting is not None:
            waiting.append(node.id)
            return True
        result = self._known.load(key) if key in self._known else None
        if result is None:
            return False
        self._finish(node, result, cached=True)
        return True

    def _taint_from_sources(self, node: BoundNode) -> None:
        if any(link.source in self._tainted for link in node.links.values()):
            self._tainted.add(node.id)

    # Expansion

    async def _expand(self, node: BoundNode, results: Sequence[NodeResult]) -> None:
        """Put the nodes in that a node gave, and come back to it when they have run."""
        try:
            expansion = await self._expansions.put_in(node, results)
        except Exception as error:  # noqa: BLE001 - what the node gave is not a good graph
            self._on_error(node, {}, error)
            return
        self.emit(NodesAdded(node.id, expansion.displays))
        for result in results:
            if result.ui is not None:
                self.emit(NodeExecuted(node.id, result.ui))
        for event in self._show_known(expansion.outputs):
            self.emit(event)
        if self.engine.hooks:
            self._visit_known(expansion.known)
        self._expansions.plan(node, expansion)

    def _complete_expanded(self, node: BoundNode) -> None:
        result = self._expansions.complete(node)
        if result is not None:
            if not self._tainted.isdisjoint(self._expansions.sources_of(node.id)):
                self._tainted.add(node.id)
            self._expansions.forget(node.id)
            self._finish(node, result)

    # Failure

    def _on_error(
        self, node: BoundNode, inputs: Mapping[str, Slot], raised: Exception | SystemExit
    ) -> None:
        error = NodeExited(raised) if isinstance(raised, SystemExit) else raised
        attempt = self._attempts.get(node.id, 1)
        for waiting in self._under_way.pop(self._keys[node.id], ()):
            self._plan.make_ready(waiting)
        if isinstance(error, self.engine.surroundings.halting_errors):
            self._end = self._end or self._interrupted_at(node)
            return
        self._visited(node, "failed", None)
        try:
            step = self._recovery.after(node, error, attempt)
        except ValueError as unusable:
            self._fail(node, inputs, unusable)
            return
        if step.event is not None:
            self.emit(step.event)
        match step.action:
            case "retry":
                self._spawn(self._try_again(node, step.pause, attempt + 1))
            case "fallback" if step.fallback is not None:
                self._taint(node.id)
                self.graph.replace(step.fallback)
                self._spawn(self._try_again(step.fallback, 0.0, attempt + 1))
            case "fallback" | "skip":
                self._finish_without_running(node, step.values)
            case _:
                self._fail(node, inputs, error, halt=step.action == "halt")

    async def _try_again(self, node: BoundNode, pause: float, attempt: int) -> None:
        """Begin a node anew, with its inputs as they are then."""
        self._attempts[node.id] = attempt
        await asyncio.sleep(pause)
        self._plan.make_ready(node.id)

    def _taint(self, node_id: str) -> None:
        """Keep nothing of a node for later, nor of those that put it in."""
        reached: str | None = node_id
        while reached is not None:
            self._tainted.add(reached)
            reached = self.graph.parent_of(reached)

    def _finish_without_running(self, node: BoundNode, values: Sequence[Any]) -> None:
        """Give values in place of what failed. They are not kept: the next run tries again."""
        self._taint(node.id)
        self._finish(node, CachedResult(tuple((value,) for value in values)))

    def _fail(
        self,
        node: BoundNode | None,
        inputs: Mapping[str, Slot],
        error: BaseException,
        *,
        halt: bool = False,
    ) -> None:
        if self._end is not None:
            return
        if halt:
            self._write_checkpoint()
        real_id = "" if node is None else self.graph.real_id(node.id)
        self._end = failed_event(
            (real_id, self.graph.type_of(real_id)) if real_id else ("", ""),
            error,
            inputs,
            message=self.engine.surroundings.explain(error),
            executed=self._executed,
            finished=self._finished,
            checkpoint=None if self.checkpoint is None else self.checkpoint.name,
            at=self.engine.clock.now(),
        )
        self._woken.set()

    def _write_checkpoint(self) -> None:
        """Write down what is done and still at hand."""
        if self.checkpoint is None:
            self.checkpoint = self.engine.open_checkpoint(self.execution_id, self._nonce)
            for node_id in self._finished:
                if node_id in self._tainted:
                    continue
                slots = self._values.get(node_id)
                result = None if slots is None else CachedResult(slots)
                result = self._shown.get(node_id, result)
                if result is not None:
                    self.checkpoint.save(self._keys[node_id], result)

    def _blame_cycle(self, stuck: Sequence[str]) -> None:
        added = [node_id for node_id in stuck if self.graph.is_added(node_id)]
        blamed = self.graph[added[0] if added else stuck[0]]
        path = " → ".join(stuck[:10])
        self._fail(blamed, {}, DependencyCycleError(f"Dependency cycle detected: {path}"))

    def _interrupted_at(self, node: BoundNode | None) -> ExecutionInterrupted:
        real_id = None if node is None else self.graph.real_id(node.id)
        return ExecutionInterrupted(
            real_id,
            None if real_id is None else self.graph.type_of(real_id),
            tuple(self._executed),
            self.engine.clock.now(),
        )

    # Hooks

    def _announce(self, node: BoundNode, inputs: Mapping[str, Slot]) -> None:
        self.emit(NodeStarted(node.id))
        if self.engine.hooks:
            self.engine.hooks.before_node(self._visit_of(node, inputs))

    def _visit_known(self, node_ids: Iterable[str]) -> None:
        for node_id in node_ids:
            self._visited(self.graph[node_id], "cached", None)

    def _visited(self, node: BoundNode, status: str, result: CachedResult | None) -> None:
        if self.engine.hooks:
            seconds = 0.0 if result is None else result.seconds
            self.engine.hooks.after_node(
                self._visit_of(node, {}), status=status, seconds=seconds, result=result
            )

    def _visit_of(self, node: BoundNode, inputs: Mapping[str, Slot]) -> NodeVisit:
        return NodeVisit(self.execution_id, node.id, node.definition, self._keys[node.id], inputs)


def _is_missing(node: BoundNode, name: str, asked: set[str]) -> bool:
    if name in node.links:
        return name in node.definition.lazy_inputs and name not in asked
    return name not in node.literals
