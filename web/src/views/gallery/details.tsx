/** What is known of an output, and what can be done with it. */

import { useState } from "preact/hooks";
import type { Schemas } from "../../api/client";
import { may } from "../../boot";
import { href } from "../../router";
import { bytes, count, duration, exactTime, plural, shortId } from "../../ui/format";
import { Button, LinkButton, Time } from "../../ui/parts";
import { LinkDialog } from "./link_dialog";
import { showsPicture } from "./media";
import type { Found } from "./outputs_list";
import { ParametersPart } from "./parameters_part";
import { DeleteDialog } from "./selection_bar";

interface DetailsProps {
  found: Found;
  removed: () => void;
  compare: () => void;
}

export function Details({ found, removed, compare }: DetailsProps) {
  const { output, execution_id } = found;
  const [asked, setAsked] = useState<"link" | "delete" | null>(null);
  const isThere = output.gone_at === null;
  return (
    <aside class="lightbox-about" aria-label="About it">
      <div class="lightbox-acts">
        {isThere && (
          <LinkButton small icon="download" href={output.url} download={output.filename}>
            Download
          </LinkButton>
        )}
        {may("jobs:write") && (
          <LinkButton small icon="edit" href={href(["run", "job", execution_id])}>
            Run again
          </LinkButton>
        )}
        {isThere && (
          <Button small icon="link" onClick={() => setAsked("link")}>
            Share link
          </Button>
        )}
        {isThere && showsPicture(found) && (
          <Button small icon="compare" onClick={compare}>
            Compare with…
          </Button>
        )}
        {isThere && may("jobs:write") && (
          <Button small look="danger" icon="trash" onClick={() => setAsked("delete")}>
            Delete
          </Button>
        )}
      </div>
      <Facts found={found} />
      <ParametersPart executionId={execution_id} />
      {asked === "link" && <LinkDialog output={output} close={() => setAsked(null)} />}
      {asked === "delete" && (
        <DeleteDialog
          ids={[output.output_id]}
          close={() => setAsked(null)}
          removed={(ids) => {
            setAsked(null);
            if (ids.size > 0) removed();
          }}
        />
      )}
    </aside>
  );
}

function Facts({ found }: { found: Found }) {
  const { output, execution_id, workflow_id, expires_at } = found;
  return (
    <dl class="facts small">
      <dt>File</dt>
      <dd>{output.filename}</dd>
      <dt>Kind</dt>
      <dd>{output.content_type}</dd>
      <dt>Size</dt>
      <dd>{bytes(output.size)}</dd>
      {output.media !== null &&
        mediaFacts(output.media).map(([name, value]) => [
          <dt key={name}>{name}</dt>,
          <dd key={`${name}-value`}>{value}</dd>,
        ])}
      <dt>Made</dt>
      <dd>
        <Time at={output.created_at} />
      </dd>
      <dt>Job</dt>
      <dd>
        <a href={href(["jobs", execution_id])}>{shortId(execution_id)}</a>
      </dd>
      {workflow_id !== null && (
        <>
          <dt>Workflow</dt>
          <dd>
            <a href={href(["run", "library", workflow_id])}>{workflow_id}</a>
          </dd>
        </>
      )}
      <dt>Node</dt>
      <dd>{output.node_id}</dd>
      {output.gone_at !== null ? (
        <>
          <dt>Gone</dt>
          <dd>
            <Time at={output.gone_at} /> ({output.gone_reason})
          </dd>
        </>
      ) : (
        expires_at !== null && (
          <>
            <dt>Kept until</dt>
            <dd>{exactTime(expires_at)}</dd>
          </>
        )
      )}
    </dl>
  );
}

/** What is not known is left out. */
function mediaFacts(media: Schemas["MediaFacts"]): [string, string][] {
  const facts: [string, string | null | undefined | false][] = [
    ["Title", media.title],
    ["Dimensions", media.width && media.height && `${media.width} × ${media.height}`],
    ["Duration", media.duration && duration(media.duration)],
    ["Frames", media.frames && media.frames > 1 && frames(media.frames, media.fps ?? null)],
    ["Codec", [media.video_codec, media.audio_codec].filter(Boolean).join(", ")],
    ["Sound", media.sample_rate && sound(media.sample_rate, media.channels ?? null)],
    ["Length", media.characters && plural(media.characters, "character")],
    ["Transparency", media.has_alpha && "yes"],
    ...Object.entries(media.counts ?? {}).map(([name, value]): [string, string] => [
      name,
      count(value),
    ]),
    ["Note", media.error],
  ].map(([name, value]) => [name, value ? String(value) : null] as [string, string | null]);
  return facts.filter((each): each is [string, string] => Boolean(each[1]));
}

function frames(value: number, perSecond: number | null): string {
  return perSecond === null ? count(value) : `${count(value)}, ${+perSecond.toFixed(2)} a second`;
}

function sound(rate: number, channels: number | null): string {
  const sides =
    channels === null
      ? ""
      : channels === 1
        ? ", mono"
        : channels === 2
          ? ", stereo"
          : `, ${channels} channels`;
  return `${+(rate / 1000).toFixed(1)} kHz${sides}`;
}
