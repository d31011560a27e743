/** An input that takes a file: dropped, chosen or pasted, sent to the server, shown with its mask. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type Schemas, sendRaw } from "../../api/client";
import { may } from "../../boot";
import { asApiError } from "../../live/resource";
import { Button, Field } from "../../ui/parts";
import { type ControlProps, useReadiness } from "./controls";

const ACCEPTED = { image: "image/*", video: "video/*", audio: "audio/*", file: "" } as const;
const ARTICLES = { image: "an image", video: "a video", audio: "a sound", file: "a file" } as const;

interface Sent {
  url: string;
  name: string;
  /** What the workflow calls it. */
  inputName: string;
  file: File;
}

export function FileControl({ control, value, change, fault, tell }: ControlProps) {
  const chooser = useRef<HTMLInputElement>(null);
  const [isOver, setOver] = useState(false);
  const [state, setState] = useState<"none" | "sending">("none");
  const [wrong, setWrong] = useState<string | null>(null);
  const [sent, setSent] = useState<Sent | null>(null);
  const newest = useRef(0);
  const kind = control.upload ?? "file";
  useReadiness(state !== "sending", tell);
  // Only as long as it is what the field has.
  const shown = sent !== null && sent.inputName === value ? sent : null;
  useEffect(
    () => () => {
      if (sent !== null) URL.revokeObjectURL(sent.url);
    },
    [sent],
  );
  const take = async (file: File | undefined) => {
    if (file === undefined) return;
    if (kind !== "file" && file.type !== "" && !file.type.startsWith(`${kind}/`)) {
      setWrong(`${file.name} is no ${kind}.`);
      return;
    }
    setWrong(null);
    setState("sending");
    newest.current += 1;
    const number = newest.current;
    const form = new FormData();
    form.append("file", file, file.name || `pasted.${file.type.split("/")[1] ?? "bin"}`);
    try {
      const reply = await sendRaw<Schemas["UploadReply"]>("POST", "/v1/uploads", form, null);
      const asset = reply.assets[0];
      // Another one was chosen meanwhile.
      if (asset === undefined || number !== newest.current) return;
      const { name, input_name: inputName } = asset;
      setSent({ url: URL.createObjectURL(file), name, inputName, file });
      change(inputName);
    } catch (error) {
      if (number === newest.current) setWrong(asApiError(error).message);
    } finally {
      if (number === newest.current) setState("none");
    }
  };
  if (!may("assets:write")) {
    return (
      <Field label={control.label} error={fault} hint="The name of a file on the server.">
        {(attributes) => (
          <input
            {...attributes}
            value={String(value ?? "")}
            onInput={(event) => change(event.currentTarget.value)}
          />
        )}
      </Field>
    );
  }
  return (
    <Field
      label={control.label}
      error={wrong ?? fault}
      {...(control.hint ? { hint: control.hint } : {})}
    >
      {(attributes) => (
        // biome-ignore lint/a11y/noStaticElementInteractions: a place to drop on; the button does the same
        <div
          class={isOver ? "run-file over" : "run-file"}
          data-drop="own"
          onDragOver={(event) => {
            event.preventDefault();
            setOver(true);
          }}
          onDragLeave={() => setOver(false)}
          onDrop={(event) => {
            event.preventDefault();
            event.stopPropagation();
            setOver(false);
            void take(event.dataTransfer?.files[0]);
          }}
          onPaste={(event) => void take(event.clipboardData?.files[0])}
        >
          {shown !== null && kind === "image" && (
            <div class="run-pictures">
              <img src={shown.url} alt={`The chosen ${control.label}`} />
              {control.hasMask && <MaskPreview file={shown.file} />}
            </div>
          )}
          <div class="row">
            <Button
              icon="upload"
              small
              onClick={() => chooser.current?.click()}
              disabled={state === "sending"}
            >
              {state === "sending" ? "Sending" : `Choose ${ARTICLES[kind]}`}
            </Button>
            <span class="small soft">
              {shown?.name ??
                (String(value ?? "") === "" ? "or drop it here" : nameIn(String(value)))}
            </span>
          </div>
          <input
            {...attributes}
            ref={chooser}
            class="hidden"
            type="file"
            tabIndex={-1}
            accept={ACCEPTED[kind]}
            onChange={(event) => {
              void take(event.currentTarget.files?.[0]);
              event.currentTarget.value = ""; // the same file may be chosen again
            }}
          />
        </div>
      )}
    </Field>
  );
}

/** `uploads/<hash>/red.png` as people know it. */
function nameIn(value: string): string {
  return value.slice(value.lastIndexOf("/") + 1);
}

/** Larger pictures are drawn smaller: it is a preview. */
const SIDE = 320;

/** What the picture's transparency masks: white is masked, as ComfyUI's LoadImage has it. */
function MaskPreview({ file }: { file: File }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hasMask, setMask] = useState<boolean | null>(null);
  useEffect(() => {
    let isThere = true;
    void drawMask(file, canvas.current).then(
      (found) => isThere && setMask(found),
      () => isThere && setMask(false),
    );
    return () => {
      isThere = false;
    };
  }, [file]);
  return (
    <figure class={hasMask ? "run-mask" : "run-mask empty"}>
      <canvas ref={canvas} role="img" aria-label="The mask: white is masked" />
      {hasMask && (
        <figcaption class="small soft">Its mask: white is what is transparent.</figcaption>
      )}
    </figure>
  );
}

async function drawMask(file: File, canvas: HTMLCanvasElement | null): Promise<boolean> {
  if (canvas === null) return false;
  const picture = await createImageBitmap(file);
  const scale = Math.min(1, SIDE / Math.max(picture.width, picture.height));
  canvas.width = Math.max(1, Math.round(picture.width * scale));
  canvas.height = Math.max(1, Math.round(picture.height * scale));
  const drawing = canvas.getContext("2d", { willReadFrequently: true });
  if (drawing === null) return false;
  drawing.drawImage(picture, 0, 0, canvas.width, canvas.height);
  picture.close();
  const pixels = drawing.getImageData(0, 0, canvas.width, canvas.height);
  let isAny = false;
  for (let at = 0; at < pixels.data.length; at += 4) {
    const masked = 255 - (pixels.data[at + 3] ?? 255);
    isAny ||= masked > 0;
    pixels.data[at] = pixels.data[at + 1] = pixels.data[at + 2] = masked;
    pixels.data[at + 3] = 255;
  }
  drawing.putImageData(pixels, 0, 0);
  return isAny;
}
