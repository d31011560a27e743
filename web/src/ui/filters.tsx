/** What narrows a list: words, one of a few, a workflow, days. Their values live in the URL. */

import "./filters.css";
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { get } from "../api/client";
import { may } from "../boot";
import { useResource } from "../live/resource";
import { setQuery } from "../router";
import { dayBegins, dayEnds } from "./dates";
import { Icon } from "./icons";
import { Button } from "./parts";
import { useScrollEdges } from "./scroll_edges";

const TYPING_MS = 250;

/** The URL follows when typing rests. */
export function SearchBox({ value, label }: { value: string; label: string }) {
  const [typed, setTyped] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const sent = useRef(value);
  useEffect(() => {
    // Changed by somebody else: Back, a link, "show everything".
    if (value === sent.current) return;
    sent.current = value;
    clearTimeout(timer.current);
    setTyped(value);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const send = (text: string) => {
    clearTimeout(timer.current);
    sent.current = text.trim();
    setQuery({ text: sent.current });
  };
  const type = (text: string) => {
    setTyped(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => send(text), TYPING_MS);
  };
  return (
    <search class="filter-search">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          send(typed);
        }}
      >
        <Icon name="search" />
        <input
          class="input"
          type="search"
          aria-label={label}
          placeholder={label}
          value={typed}
          maxLength={300}
          onInput={(event) => type(event.currentTarget.value)}
        />
      </form>
    </search>
  );
}

interface ChipsProps {
  label: string;
  /** The first is everything: its `id` is empty. */
  chips: readonly { id: string; name: string }[];
  current: string;
  choose: (id: string) => void;
}

export function Chips({ label, chips, current, choose }: ChipsProps) {
  const row = useRef<HTMLFieldSetElement>(null);
  useScrollEdges(row);
  return (
    <fieldset class="filter-chips fades" ref={row}>
      <legend class="hidden">{label}</legend>
      {chips.map(({ id, name }) => (
        <button
          key={id}
          type="button"
          class="filter-chip"
          aria-pressed={id === current}
          onClick={() => choose(id)}
        >
          {name}
        </button>
      ))}
    </fieldset>
  );
}

const MOST_WORKFLOWS = 500;

/** Of the library. One that is not there any more can still be in a link. */
export function WorkflowChoice({ value }: { value: string }) {
  const found = useResource(may("library:read") ? "workflows" : null, (signal) =>
    get("/v1/workflows", { query: { limit: MOST_WORKFLOWS }, signal }),
  );
  const names = (found.data?.workflows ?? []).map((each) => each.name);
  if (value !== "" && !names.includes(value)) names.unshift(value);
  if (names.length === 0) return null;
  return (
    <select
      class="input"
      aria-label="Workflow"
      value={value}
      onChange={(event) => setQuery({ workflow_id: event.currentTarget.value })}
    >
      <option value="">Any workflow</option>
      {names.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}

export function DayRange({ from, to }: { from: string; to: string }) {
  const first = useId();
  const last = useId();
  return (
    <div class="filter-days">
      <label for={first}>From</label>
      <input
        id={first}
        class="input"
        type="date"
        value={dayBegins(from) === null ? "" : from}
        max={to || undefined}
        onChange={(event) => setQuery({ from: event.currentTarget.value })}
      />
      <label for={last}>to</label>
      <input
        id={last}
        class="input"
        type="date"
        value={dayEnds(to) === null ? "" : to}
        min={from || undefined}
        onChange={(event) => setQuery({ to: event.currentTarget.value })}
      />
    </div>
  );
}

/** On a phone the rarer ones are behind a button, open where one of them counts. */
export function MoreFilters({ used, children }: { used: boolean; children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(used);
  return (
    <>
      <Button
        class="filter-more"
        small
        pressed={isOpen}
        icon="down"
        onClick={() => setOpen(!isOpen)}
      >
        More filters
      </Button>
      <div class={isOpen ? "filter-rest open" : "filter-rest"}>{children}</div>
    </>
  );
}
