/** One job of a batch: what it made, how it stands, what it has of its own. */

import { type ReadonlySignal, type Signal, useComputed } from "@preact/signals";
import { useState } from "preact/hooks";
import { post } from "../../api/client";
import { may } from "../../boot";
import { href } from "../../router";
import { Icon, type IconName } from "../../ui/icons";
import { outputId, Thumb } from "../../ui/output";
import { Bar, Button, Pill } from "../../ui/parts";
import { attempt } from "../../ui/toasts";
import { shortValue, valueText } from "../../ui/values";
import { JOB_WORD } from "../../ui/words";
import type { Batch, Covers } from "./batch_data";
import type { Member } from "./members";

export interface MemberCellProps {
  member: Signal<Member>;
  covers: ReadonlySignal<Covers>;
  /** Which of its parameters to show: those that differ. */
  targets: ReadonlySet<string>;
  picked: readonly string[];
  pick: (output: string) => void;
  /** How a target is called. */
  label: (target: string) => string;
  batch: Batch;
  update: (batch: Batch) => void;
}

export function MemberCell(props: MemberCellProps) {
  const { member: source, covers, targets, picked, pick } = props;
  const member = source.value;
  const { execution_id: job, status, index } = member;
  const cover = useComputed(() => (job === null ? undefined : covers.value.get(job))).value;
  const name = `No. ${index + 1}`;
  const shown = Object.entries(member.parameters).filter(([target]) => targets.has(target));
  // Those of grids and searches only repeat the values.
  const isNamed = props.batch.kind === "list" || props.batch.kind === "variants";
  const label = isNamed ? member.name : null;
  const inside = cover === undefined ? <Sign status={status} /> : <Thumb output={cover} />;
  const output = cover === undefined ? null : outputId(cover);
  return (
    <article class="batch-cell" data-testid={`member-${index}`} data-state={status ?? "unmade"}>
      {job === null ? (
        <div class="batch-picture">{inside}</div>
      ) : (
        <a
          class="batch-picture"
          href={href(["jobs", job])}
          aria-label={`${name}, ${wordOf(status)}`}
        >
          {inside}
        </a>
      )}
      {status === "processing" && <Bar value={member.progress} label={`Progress of ${name}`} />}
      <div class="batch-caption">
        <span class="batch-line">
          <span class="soft small number">{name}</span>
          {status !== "completed" && <Pill state={status ?? "warn"}>{wordOf(status)}</Pill>}
          {member.score !== null && <strong class="number">{member.score}</strong>}
          {output !== null && (
            <label class="batch-pick">
              <input
                type="checkbox"
                checked={picked.includes(output)}
                onChange={() => pick(output)}
                aria-label={`Compare ${name}`}
              />
            </label>
          )}
        </span>
        {shown.length > 0 && (
          <dl class="batch-values">
            {shown.map(([target, value]) => (
              <div key={target}>
                <dt>{props.label(target)}</dt>
                <dd title={valueText(value)}>{shortValue(value)}</dd>
              </div>
            ))}
          </dl>
        )}
        {label !== null && <strong class="small">{label}</strong>}
        {member.error !== null && <p class="batch-error small">{member.error.message}</p>}
        {member.warning !== null && <p class="soft small">{member.warning}</p>}
        {awaitsScore(props.batch, member) && <ScoreForm {...props} name={name} />}
      </div>
    </article>
  );
}

function wordOf(status: string | null): string {
  const words: Partial<Record<string, string>> = JOB_WORD;
  return status === null ? "not made" : (words[status] ?? status);
}

const SIGNS: Record<string, IconName> = {
  queued: "clock",
  processing: "play",
  completed: "check",
  failed: "warning",
  cancelled: "close",
};

function Sign({ status }: { status: string | null }) {
  return (
    <span class={`thumb sign batch-sign ${status ?? ""}`}>
      <Icon name={SIGNS[status ?? ""] ?? "info"} size={26} />
    </span>
  );
}

function awaitsScore(batch: Batch, member: Member): boolean {
  return (
    batch.counts.awaiting_score > 0 &&
    member.status === "completed" &&
    member.score === null &&
    member.warning === null &&
    may("jobs:write")
  );
}

function ScoreForm({ member, batch, update, name }: MemberCellProps & { name: string }) {
  const [text, setText] = useState("");
  const score = Number(text);
  const isNumber = text.trim() !== "" && Number.isFinite(score);
  const send = async () => {
    const { execution_id } = member.peek();
    if (execution_id === null || !isNumber) return;
    const next = await attempt(() =>
      post("/v1/batches/{batch_id}/scores", {
        path: { batch_id: batch.batch_id },
        body: { execution_id, score },
      }),
    );
    if (next === null) return;
    member.value = { ...member.peek(), score };
    update(next);
  };
  return (
    <form
      class="batch-score"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <input
        class="input"
        type="number"
        step="any"
        placeholder="Score"
        aria-label={`Score of ${name}`}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <Button small type="button" disabled={!isNumber} onClick={send}>
        Save
      </Button>
    </form>
  );
}
