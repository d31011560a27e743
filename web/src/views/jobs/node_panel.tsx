/** One node: what it was given, how it went, what it made. */

import { setQuery } from "../../router";
import { exactTime } from "../../ui/format";
import { Icon } from "../../ui/icons";
import { Bar, Button } from "../../ui/parts";
import { valueText } from "../../ui/values";
import type { FormNode, Job, JobData, JobOutput } from "./job_data";
import { OutputCard } from "./job_outputs";
import { howFar, NODE_ICON, NODE_WORD, tookOf } from "./node_states";

interface NodePanelProps {
  id: string;
  data: JobData;
  outputs: readonly JobOutput[];
  job: Job;
}

export function NodePanel({ id, data, outputs, job }: NodePanelProps) {
  const nodes = data.form.data?.nodes ?? [];
  const node = nodes.find((each) => each.node_id === id);
  const isKnown = node !== undefined || data.book.ids.value.includes(id);
  const title = node?.title ?? data.book.typeOf(id) ?? id;
  const made = outputs.filter((each) => each.node_id === id);
  const titleOf = (other: string) => nodes.find((each) => each.node_id === other)?.title ?? other;
  return (
    <aside class="job-panel card" aria-label={`Node ${title}`}>
      <header>
        <div>
          <h2>{title}</h2>
          <p class="soft small mono">
            {node?.class_type ?? data.book.typeOf(id)} · {id}
          </p>
        </div>
        <Button
          icon="close"
          look="quiet"
          small
          label="Close the node"
          onClick={() => {
            setQuery({ node: null });
            focusNode(id);
          }}
        />
      </header>
      {!isKnown ? (
        <p class="soft">The job has no such node.</p>
      ) : (
        <>
          <State id={id} data={data} />
          {node !== undefined && <Inputs node={node} titleOf={titleOf} />}
          {made.length > 0 && (
            <section class="stack">
              <h3>Outputs</h3>
              {made.map((output) => (
                <OutputCard key={output.id} output={output} job={job} from={null} />
              ))}
            </section>
          )}
        </>
      )}
    </aside>
  );
}

/** Where it stands, in the graph or in the list. */
function focusNode(id: string): void {
  const found = document.querySelector<HTMLElement>(`.job-parts [data-node="${CSS.escape(id)}"]`);
  found?.focus({ preventScroll: true });
}

function State({ id, data }: { id: string; data: JobData }) {
  const state = data.book.stateOf(id).value;
  return (
    <section class="stack">
      <p class="job-panel-state">
        <span class={`job-mark ${state.status}`}>
          <Icon name={NODE_ICON[state.status]} size={15} />
          {NODE_WORD[state.status]}
        </span>
        <span class="soft number">{howFar(state) ?? tookOf(state)}</span>
      </p>
      {state.status === "running" && <Bar value={state.progress} label="Progress of the node" />}
      {state.status === "cached" && (
        <p class="soft small">The worker had its result from an earlier job.</p>
      )}
      {state.status === "skipped" && (
        <p class="soft small">Nothing needed it, or what comes before it failed.</p>
      )}
      {state.startedAt !== null && <p class="soft small">Began {exactTime(state.startedAt)}</p>}
      {state.errorMessage !== null && (
        <div class="notice error">
          <Icon name="warning" />
          <div>
            <p>{state.errorMessage}</p>
            {state.errorType !== null && <p class="soft small">{state.errorType}</p>}
          </div>
        </div>
      )}
    </section>
  );
}

function Inputs({ node, titleOf }: { node: FormNode; titleOf: (id: string) => string }) {
  if (node.links.length === 0 && node.fields.length === 0) {
    return <p class="soft">It takes nothing.</p>;
  }
  return (
    <section class="stack">
      <h3>Inputs</h3>
      <dl class="job-inputs">
        {node.links.map((link) => (
          <div key={link.input}>
            <dt>{link.input}</dt>
            <dd>
              <button
                type="button"
                class="job-link"
                onClick={() => setQuery({ node: link.node_id })}
              >
                from {titleOf(link.node_id)}
              </button>
            </dd>
          </div>
        ))}
        {node.fields.map((field) => (
          <div key={field.name}>
            <dt>{field.name}</dt>
            <dd>{field.value_text ?? valueText(field.value)}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
