/** What the job has made, as it comes. */

import { useMemo } from "preact/hooks";
import { getBlob } from "../../api/client";
import { useResource } from "../../live/resource";
import { href } from "../../router";
import { bytes, duration, plural } from "../../ui/format";
import { isAudio, isImage, isVideo, outputId, pictureOf, Thumb } from "../../ui/output";
import { CopyButton, Empty, ErrorBox, LinkButton, Loading, Pill } from "../../ui/parts";
import { isOpen, type Job, type JobForm, type JobOutput } from "./job_data";

interface JobOutputsProps {
  job: Job;
  outputs: readonly JobOutput[];
  form: JobForm | null;
}

export function JobOutputs({ job, outputs, form }: JobOutputsProps) {
  const titles = useMemo(
    () => new Map(form?.nodes.map((node) => [node.node_id, node.title])),
    [form],
  );
  if (outputs.length === 0) {
    return isOpen(job) ? (
      <Empty title="Nothing yet">
        <p>What the job makes shows up here as soon as it is there.</p>
      </Empty>
    ) : (
      <Empty title="It made nothing">
        <p>
          {job.status === "completed"
            ? "None of its nodes saves or shows something. Add one such as Save Image."
            : "It ended before a file was made."}
        </p>
      </Empty>
    );
  }
  const kept = outputs.filter((each) => !each.temporary);
  const temporary = outputs.filter((each) => each.temporary);
  return (
    <div class="stack">
      {kept.length > 0 && <Cards job={job} outputs={kept} titles={titles} />}
      {temporary.length > 0 && (
        <>
          <h2>Previews that nodes made</h2>
          <Cards job={job} outputs={temporary} titles={titles} />
        </>
      )}
    </div>
  );
}

interface CardsProps {
  job: Job;
  outputs: readonly JobOutput[];
  titles: ReadonlyMap<string, string>;
}

function Cards({ job, outputs, titles }: CardsProps) {
  return (
    <ul class="job-outputs">
      {outputs.map((output) => (
        <li key={output.id}>
          <OutputCard
            output={output}
            job={job}
            from={titles.get(output.node_id) ?? output.node_id}
          />
        </li>
      ))}
    </ul>
  );
}

interface OutputCardProps {
  output: JobOutput;
  job: Job;
  /** The name of the node that made it, where that is not clear. */
  from: string | null;
}

export function OutputCard({ output, job, from }: OutputCardProps) {
  const isGone = output.gone_at !== null;
  return (
    <figure class="job-output card" data-testid="output">
      {isGone ? <Gone output={output} /> : <Content output={output} job={job} />}
      <figcaption>
        <span class="job-output-name" title={output.filename}>
          {output.filename}
        </span>
        {output.partial && <Pill state="warn">partial</Pill>}
        {!isGone && (
          <LinkButton
            small
            look="quiet"
            icon="download"
            href={output.url}
            download={output.filename}
            label={`Download ${output.filename}`}
          />
        )}
        <span class="job-output-about soft small">{aboutOf(output, from)}</span>
      </figcaption>
    </figure>
  );
}

function aboutOf({ media, size }: JobOutput, from: string | null): string {
  const facts = [bytes(size)];
  if (media?.width != null && media.height != null) facts.unshift(`${media.width}×${media.height}`);
  if (media?.duration != null) facts.unshift(duration(media.duration));
  if (from !== null) facts.push(from);
  return facts.join(" · ");
}

function Gone({ output }: { output: JobOutput }) {
  const why: Record<string, string> = {
    expired: "It was kept as long as it should be.",
    quota: "There was no room left for it.",
    deleted: "Somebody deleted it.",
  };
  return <p class="job-gone soft">The file is gone. {why[output.gone_reason ?? ""] ?? ""}</p>;
}

function Content({ output, job }: { output: JobOutput; job: Job }) {
  const { content_type: type, url } = output;
  if (isVideo(type)) {
    const poster = pictureOf(output, 512);
    return <video controls preload="none" src={url} {...(poster === null ? {} : { poster })} />;
  }
  if (isAudio(type)) {
    // biome-ignore lint/a11y/useMediaCaption: as above
    return <audio controls preload="none" src={url} />;
  }
  if (isText(output)) return <Text output={output} />;
  const link = href(["gallery"], { execution_id: job.id, open: outputId(output) });
  return (
    <a class="job-thumb" href={link}>
      <Thumb output={output} pixels={isImage(type) ? 512 : 256} />
    </a>
  );
}

const LONGEST_TEXT = 64 * 1024;

function isText(output: JobOutput): boolean {
  const isOne =
    output.kind === "text" || output.kind === "value" || output.content_type.startsWith("text/");
  return isOne || output.content_type === "application/json";
}

function Text({ output }: { output: JobOutput }) {
  const isShort = output.size <= LONGEST_TEXT;
  const text = useResource(isShort ? output.url : null, async (signal) => {
    const found = await getBlob(output.url, signal);
    return found === null ? "" : found.text();
  });
  if (!isShort) {
    const { first_line: line, characters } = output.media ?? {};
    return (
      <p class="job-gone soft">
        {line && `${line} … `}A text of{" "}
        {characters ? plural(characters, "character") : bytes(output.size)}. Download it to read it.
      </p>
    );
  }
  if (text.error) return <ErrorBox error={text.error} retry={text.reload} />;
  if (text.data === null) return <Loading lines={2} />;
  return (
    <div class="job-text">
      <pre>{text.data}</pre>
      <CopyButton text={text.data} label={`Copy ${output.filename}`} />
    </div>
  );
}
