/** The latest outputs, to choose one from. */

import { useEffect, useState } from "preact/hooks";
import { get } from "../../api/client";
import { useResource } from "../../live/resource";
import { Thumb } from "../../ui/output";
import { Dialog, Empty, ErrorBox, Loading } from "../../ui/parts";
import { idOf } from "./outputs_list";

const MOST = 60;
const TYPING_MS = 250;

interface PickerProps {
  title: string;
  close: () => void;
  pick: (id: string) => void;
}

export function Picker({ title, close, pick }: PickerProps) {
  const [typed, setTyped] = useState("");
  const [text, setText] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setText(typed.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const found = useResource(`picker/${text}`, (signal) =>
    get("/v1/outputs", { query: { text, kind: ["image"], limit: MOST }, signal }),
  );
  const outputs = found.data?.outputs;
  return (
    <Dialog title={title} close={close} wide>
      <input
        class="input"
        type="search"
        aria-label="Search prompts and file names"
        placeholder="Search prompts and file names"
        value={typed}
        maxLength={300}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
      {found.error && <ErrorBox error={found.error} retry={found.reload} />}
      {outputs === undefined ? (
        !found.error && <Loading />
      ) : outputs.length === 0 ? (
        <Empty title="No picture is like that" />
      ) : (
        <ul class="compare-picker">
          {outputs.map((each) => (
            <li key={idOf(each)}>
              <button type="button" onClick={() => pick(idOf(each))} title={each.output.filename}>
                <Thumb output={each.output} />
              </button>
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  );
}
