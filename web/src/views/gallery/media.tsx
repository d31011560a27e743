/** The content of an output, as a browser can show it. */

import { useState } from "preact/hooks";
import { ApiError } from "../../api/client";
import { useResource } from "../../live/resource";
import { bytes } from "../../ui/format";
import { Icon } from "../../ui/icons";
import { isAudio, isImage, isVideo, pictureOf } from "../../ui/output";
import { ErrorBox, LinkButton, Loading } from "../../ui/parts";
import type { Found } from "./outputs_list";

/** A picture that can be looked at closely; others have players or are texts. */
export function showsPicture({ output }: Found): boolean {
  return isImage(output.content_type) || isDrawn(output.content_type);
}

/** Pictures that browsers do not know: their largest small version is shown. */
function isDrawn(type: string): boolean {
  return type.startsWith("image/");
}

export function pictureUrl({ output }: Found): string | null {
  return isImage(output.content_type) ? output.url : pictureOf(output, 1024);
}

interface PictureProps {
  found: Found;
  /** Told when its size is known. */
  sized?: (size: { width: number; height: number }) => void;
  class?: string;
}

/** The small version first, so that there is something at once. */
export function Picture({ found, sized, class: sort }: PictureProps) {
  const [isThere, setThere] = useState(false);
  const url = pictureUrl(found);
  const small = pictureOf(found.output, 256);
  if (url === null) return <NoPicture found={found} />;
  return (
    <>
      {!isThere && small !== null && small !== url && (
        <img class="media-picture early" src={small} alt="" draggable={false} />
      )}
      <img
        class={`media-picture ${sort ?? ""}`}
        src={url}
        alt={found.output.filename}
        draggable={false}
        onLoad={(event) => {
          setThere(true);
          const { naturalWidth, naturalHeight } = event.currentTarget;
          sized?.({ width: naturalWidth, height: naturalHeight });
        }}
      />
    </>
  );
}

/** A film, a sound, a text, a picture as it is, or a sign for what nobody can show. */
export function Player({ found }: { found: Found }) {
  const { output } = found;
  const picture = showsPicture(found) ? pictureUrl(found) : null;
  if (picture !== null) return <img src={picture} alt={output.filename} />;
  if (isVideo(output.content_type)) {
    return (
      // biome-ignore lint/a11y/useMediaCaption: what jobs make has no captions
      <video
        class="media-video"
        src={output.url}
        controls
        loop
        playsInline
        poster={output.variants.poster}
        aria-label={output.filename}
      />
    );
  }
  if (isAudio(output.content_type)) return <Sound found={found} />;
  if (isText(output.content_type)) return <Text found={found} />;
  return <NoPicture found={found} />;
}

function Sound({ found: { output } }: { found: Found }) {
  const wave = output.variants.waveform;
  return (
    <div class="media-sound">
      {wave === undefined ? <Icon name="music" size={64} /> : <img src={wave} alt="" />}
      {/* biome-ignore lint/a11y/useMediaCaption: what jobs make has no captions */}
      <audio src={output.url} controls aria-label={output.filename} />
    </div>
  );
}

const LONGEST_TEXT = 1_000_000;

function isText(type: string): boolean {
  return /^(text\/|application\/(json|xml|yaml|x-ndjson))/.test(type);
}

function Text({ found: { output } }: { found: Found }) {
  const isShort = output.size <= LONGEST_TEXT;
  const text = useResource(isShort ? output.url : null, (signal) => textAt(output.url, signal));
  if (!isShort) {
    return (
      <p class="media-none">
        This text is {bytes(output.size)} long. <a href={output.url}>Download it</a> to read it.
      </p>
    );
  }
  if (text.error) return <ErrorBox error={text.error} retry={text.reload} />;
  if (text.data === null) return <Loading />;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys
    <pre class="media-text" tabIndex={0}>
      {text.data}
    </pre>
  );
}

async function textAt(url: string, signal: AbortSignal): Promise<string> {
  const reply = await fetch(url, { credentials: "same-origin", signal }).catch((error: unknown) => {
    if (signal.aborted) throw error;
    throw new ApiError(0, "SERVER_AWAY", "The server does not answer. Is it running?");
  });
  if (reply.ok) return reply.text();
  throw new ApiError(reply.status, "NOT_READ", "The text could not be read. It may be gone.");
}

function NoPicture({ found: { output } }: { found: Found }) {
  return (
    <div class="media-none">
      <Icon name="file" size={64} />
      <p>A browser cannot show this kind of file ({output.content_type}).</p>
      <LinkButton href={output.url} download={output.filename} icon="download">
        Download
      </LinkButton>
    </div>
  );
}
