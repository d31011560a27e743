/** What a picture was made with, to read and to take along. */

import { useState } from "preact/hooks";
import { get } from "../../api/client";
import { useResource } from "../../live/resource";
import { copy } from "../../ui/clipboard";
import { count } from "../../ui/format";
import { Button, CopyButton, ErrorBox, Loading } from "../../ui/parts";
import { asJson, asText, interesting, type Parameter } from "./parameters";

export function useForm(executionId: string | null) {
  return useResource(executionId === null ? null : `form/${executionId}`, (signal) =>
    get("/v2/workflows/executions/{execution_id}/workflow", {
      path: { execution_id: executionId ?? "" },
      signal,
    }),
  );
}

/** Large workflows have hundreds: so many at first. */
const FIRST = 14;

export function ParametersPart({ executionId }: { executionId: string }) {
  const form = useForm(executionId);
  const [isWhole, setWhole] = useState(false);
  if (form.error) return <ErrorBox error={form.error} retry={form.reload} />;
  if (form.data === null) return <Loading lines={3} />;
  const parameters = interesting(form.data.nodes);
  const { workflow } = form.data;
  return (
    <section class="parameters" aria-label="Parameters">
      <h3>Parameters</h3>
      {parameters.length === 0 && <p class="soft small">Everything is as it is by itself.</p>}
      {parameters.slice(0, isWhole ? parameters.length : FIRST).map((each) => (
        <One key={each.place} parameter={each} />
      ))}
      {!isWhole && parameters.length > FIRST && (
        <Button small look="quiet" icon="down" onClick={() => setWhole(true)}>
          {`Show ${count(parameters.length - FIRST)} more`}
        </Button>
      )}
      <div class="row">
        {parameters.length > 0 && (
          <>
            <Button small icon="copy" onClick={() => copy(asText(parameters))}>
              Copy parameters
            </Button>
            <Button small icon="copy" onClick={() => copy(asJson(parameters))}>
              As JSON
            </Button>
          </>
        )}
        <Button small icon="copy" onClick={() => copy(JSON.stringify(workflow, null, 2))}>
          Copy workflow
        </Button>
      </div>
    </section>
  );
}

function One({ parameter: { label, text, isLong } }: { parameter: Parameter }) {
  return (
    <div class={isLong ? "parameter long" : "parameter"}>
      <span class="parameter-name soft small">{label}</span>
      <span class="parameter-value">{text}</span>
      <CopyButton text={text} label={`Copy ${label}`} />
    </div>
  );
}
