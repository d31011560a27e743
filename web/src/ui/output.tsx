/** An output as a picture: its thumbnail, or a sign for what cannot be shown. */

import type { Schemas } from "../api/client";
import { Icon, type IconName } from "./icons";

export type Output = Schemas["OutputBody"] | Schemas["V2Output"];

/** Only of use together with v1's and v2's two names for it. */
export function outputId(output: Output): string {
  return "id" in output ? output.id : output.output_id;
}

export function isImage(contentType: string | null): boolean {
  return contentType !== null && /^image\/(png|jpeg|webp|gif|avif|bmp)$/.test(contentType);
}

export function isVideo(contentType: string | null): boolean {
  return contentType?.startsWith("video/") ?? false;
}

export function isAudio(contentType: string | null): boolean {
  return contentType?.startsWith("audio/") ?? false;
}

/** The URL of the smallest version with at least so many pixels a side, or of the file itself. */
export function pictureOf(output: Output, pixels: number): string | null {
  const variants = output.variants as Record<string, string | undefined>;
  for (const size of [256, 512, 1024]) {
    const found = variants[`thumb_${size}`];
    if (size >= pixels && found !== undefined) return found;
  }
  const other = variants.poster ?? variants.waveform ?? variants.thumb_256;
  if (other !== undefined && !isImage(output.content_type)) return other;
  return isImage(output.content_type) && output.gone_at === null ? output.url : (other ?? null);
}

export function Thumb({ output, pixels = 256 }: { output: Output; pixels?: number }) {
  const url = pictureOf(output, pixels);
  if (url !== null) {
    return <img class="thumb" src={url} alt={output.filename} loading="lazy" decoding="async" />;
  }
  return (
    <span class="thumb sign">
      <Icon name={signOf(output.content_type)} size={32} />
      <small>{output.filename}</small>
    </span>
  );
}

function signOf(contentType: string | null): IconName {
  if (isAudio(contentType)) return "music";
  if (isVideo(contentType)) return "film";
  return "file";
}
