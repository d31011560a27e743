/** Two outputs against each other: their pictures, and what they were made with. */

import "./lightbox.css";
import "./compare.css";
import { useSignal } from "@preact/signals";
import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { get } from "../../api/client";
import { type Resource, useResource } from "../../live/resource";
import { href, setQuery } from "../../router";
import { bytes, plural, shortId } from "../../ui/format";
import { Thumb } from "../../ui/output";
import { Button, Empty, ErrorBox, Loading, Notice, Time } from "../../ui/parts";
import { TableCard } from "../../ui/table_card";
import { Tabs } from "../../ui/tabs";
import type { ViewProps } from "../../views";
import { Blink, SideBySide, Slider } from "./compare_modes";
import { DifferenceMode } from "./difference_mode";
import { Player, showsPicture } from "./media";
import type { Found } from "./outputs_list";
import { compareForms, type Difference, type FormNode, interesting } from "./parameters";
import { useForm } from "./parameters_part";
import { Picker } from "./picker";
import { FIT, type Zoom } from "./zoom";

const MODES = [
  { id: "slider", name: "Slider" },
  { id: "side", name: "Side by side" },
  { id: "blink", name: "Blink" },
  { id: "difference", name: "Difference" },
] as const;

type Side = "a" | "b";

export default function CompareView({ query }: ViewProps) {
  const a = useOutput(query.get("a"));
  const b = useOutput(query.get("b"));
  const [picking, setPicking] = useState<Side | null>(null);
  const swap = () => setQuery({ a: query.get("b"), b: query.get("a") });
  return (
    <>
      <header>
        <h1>Compare</h1>
        <span class="push">
          <Button icon="compare" onClick={swap} disabled={a.data === null || b.data === null}>
            Swap A and B
          </Button>
        </span>
      </header>
      <div class="compare-sides">
        <SideCard side="a" id={query.get("a")} found={a} pick={() => setPicking("a")} />
        <SideCard side="b" id={query.get("b")} found={b} pick={() => setPicking("b")} />
      </div>
      {a.data !== null && b.data !== null ? (
        <Both a={a.data} b={b.data} mode={query.get("mode") ?? "slider"} />
      ) : (
        (query.get("a") === null || query.get("b") === null) && (
          <Empty title="Choose two outputs">
            <p>
              Choose A and B above, or select two in the <a href="#/gallery">gallery</a>.
            </p>
          </Empty>
        )
      )}
      {picking !== null && (
        <Picker
          title={`Choose ${picking.toUpperCase()}`}
          close={() => setPicking(null)}
          pick={(id) => {
            setQuery({ [picking]: id });
            setPicking(null);
          }}
        />
      )}
    </>
  );
}

function useOutput(id: string | null): Resource<Found> {
  return useResource(id === null ? null : `output/${id}`, (signal) =>
    get("/v1/outputs/{output_id}", { path: { output_id: id ?? "" }, signal }),
  );
}

interface CardProps {
  side: Side;
  id: string | null;
  found: Resource<Found>;
  pick: () => void;
}

function SideCard({ side, id, found, pick }: CardProps) {
  const name = side.toUpperCase();
  const { data, error } = found;
  return (
    <section class="card compare-side" aria-label={name}>
      <strong class="compare-letter">{name}</strong>
      {data !== null && (
        <>
          <span class="compare-thumb">
            <Thumb output={data.output} pixels={128} />
          </span>
          <div class="compare-about">
            <a href={href(["gallery"], { open: data.output.output_id })}>{data.output.filename}</a>
            <span class="soft small">
              {sizeOf(data)} · <Time at={data.output.created_at} /> ·{" "}
              <a href={href(["jobs", data.execution_id])}>job {shortId(data.execution_id)}</a>
            </span>
          </div>
        </>
      )}
      {error && <ErrorBox error={error} retry={found.reload} />}
      {data === null && !error && id !== null && <Loading lines={2} />}
      <span class="push">
        <Button small onClick={pick}>
          {id === null ? "Choose" : "Change"}
          <span class="hidden"> {name}</span>
        </Button>
      </span>
    </section>
  );
}

function sizeOf({ output: { media, size } }: Found): string {
  return media?.width && media.height ? `${media.width} × ${media.height}` : bytes(size);
}

function Both({ a, b, mode }: { a: Found; b: Found; mode: string }) {
  const zoom = useSignal<Zoom>(FIT);
  const current = MODES.find((each) => each.id === mode)?.id ?? "slider";
  const arePictures = showsPicture(a) && showsPicture(b);
  const key = `${a.output.output_id}/${b.output.output_id}`;
  return (
    <>
      {arePictures ? (
        <section class="stack" aria-label="Pictures">
          <Tabs
            tabs={MODES}
            current={current}
            choose={(id) => setQuery({ mode: id === "slider" ? "" : id })}
            label="How to compare"
          >
            {current === "slider" && <Slider key={key} a={a} b={b} zoom={zoom} />}
            {current === "side" && <SideBySide key={key} a={a} b={b} zoom={zoom} />}
            {current === "blink" && <Blink key={key} a={a} b={b} zoom={zoom} />}
            {current === "difference" && <DifferenceMode key={key} a={a} b={b} zoom={zoom} />}
          </Tabs>
        </section>
      ) : (
        <div class="compare-two">
          <div class="card compare-other">
            <Player found={a} />
          </div>
          <div class="card compare-other">
            <Player found={b} />
          </div>
        </div>
      )}
      <Parameters a={a} b={b} />
    </>
  );
}

function Parameters({ a, b }: { a: Found; b: Found }) {
  const isOneJob = a.execution_id === b.execution_id;
  const ofA = useForm(isOneJob ? null : a.execution_id);
  const ofB = useForm(isOneJob ? null : b.execution_id);
  if (isOneJob) {
    return (
      <p class="soft">
        Both are of <a href={href(["jobs", a.execution_id])}>the same job</a>: they were made with
        the same parameters.
      </p>
    );
  }
  const error = ofA.error ?? ofB.error;
  if (error) return <ErrorBox error={error} retry={() => [ofA.reload(), ofB.reload()]} />;
  if (ofA.data === null || ofB.data === null) return <Loading />;
  const { areAlike, differ, same } = compareForms(ofA.data.nodes, ofB.data.nodes);
  if (!areAlike) {
    return (
      <section class="stack" aria-label="Parameters">
        <h2>What they were made with</h2>
        <Notice>They come from different workflows.</Notice>
        <div class="compare-two">
          <Main name="A" nodes={ofA.data.nodes} />
          <Main name="B" nodes={ofB.data.nodes} />
        </div>
      </section>
    );
  }
  return (
    <section class="stack" aria-label="Parameters">
      <h2>What differs</h2>
      {differ.length === 0 ? (
        <p class="soft">All parameters are the same.</p>
      ) : (
        <ParameterTable rows={differ} caption="Parameters that differ" />
      )}
      {same.length > 0 && (
        <details class="compare-same">
          <summary>{plural(same.length, "parameter")} the same</summary>
          <ParameterTable rows={same} caption="Parameters that are the same" isOne />
        </details>
      )}
    </section>
  );
}

const MOST_MAIN = 20;

/** What matters of one. */
function Main({ name, nodes }: { name: string; nodes: readonly FormNode[] }) {
  const main = interesting(nodes);
  return (
    <div class="card padded stack compare-main">
      <h3>{name}</h3>
      {main.length === 0 && <p class="soft">Everything is as it is by itself.</p>}
      <dl class="facts">
        {main.slice(0, MOST_MAIN).map((each) => (
          <Fragment key={each.place}>
            <dt>{each.label}</dt>
            <dd>{each.text}</dd>
          </Fragment>
        ))}
      </dl>
      {main.length > MOST_MAIN && (
        <p class="soft small">and {plural(main.length - MOST_MAIN, "other")}</p>
      )}
    </div>
  );
}

interface TableProps {
  rows: readonly Difference[];
  caption: string;
  isOne?: boolean;
}

function ParameterTable({ rows, caption, isOne }: TableProps) {
  return (
    <TableCard label="Parameters side by side">
      <table class="compare-table">
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            <th scope="col">Parameter</th>
            {isOne ? (
              <th scope="col">Value</th>
            ) : (
              <>
                <th scope="col">A</th>
                <th scope="col">B</th>
              </>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((each) => (
            <tr key={`${each.place}/${each.label}`}>
              <th scope="row">{each.label}</th>
              <td>{each.a ?? <span class="soft">not there</span>}</td>
              {!isOne && <td>{each.b ?? <span class="soft">not there</span>}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </TableCard>
  );
}
