/** Two pictures subtracted from each other, as a picture and in figures. */

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { percent } from "../../ui/format";
import { Loading, Notice } from "../../ui/parts";
import { Frame, type ModeProps, pixelsOf } from "./compare_modes";
import { type Apart, commonSize, difference } from "./difference";
import { pictureUrl } from "./media";
import type { Found } from "./outputs_list";
import { ZoomStage } from "./zoom_stage";

const MOST_PIXELS = 4_000_000;
const STRENGTHS = [1, 4, 16, 64];

export function DifferenceMode({ a, b, zoom }: ModeProps) {
  const [strength, setStrength] = useState(4);
  const [found, setFound] = useState<Apart | "failed" | null>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const label = useId();
  useEffect(() => {
    let isThere = true;
    void differenceOf(a, b, strength, () => (isThere ? canvas.current : null)).then(
      (apart) => isThere && setFound(apart),
      () => isThere && setFound("failed"),
    );
    return () => {
      isThere = false;
    };
  }, [a, b, strength]);
  return (
    <Frame
      zoom={zoom}
      found={a}
      label="Difference of A and B"
      below={
        <>
          <label for={label} class="small">
            Strength
          </label>
          <select
            id={label}
            class="input compare-strength"
            value={String(strength)}
            onChange={(event) => setStrength(Number(event.currentTarget.value))}
          >
            {STRENGTHS.map((each) => (
              <option key={each} value={String(each)}>
                × {each}
              </option>
            ))}
          </select>
          <span class="small" role="status">
            {found !== null && found !== "failed" && words(found)}
          </span>
        </>
      }
    >
      {found === "failed" && (
        <Notice look="warning">The pictures could not be loaded, so nothing is compared.</Notice>
      )}
      <div class="compare-stack" ref={box}>
        {found === null && <Loading />}
        <ZoomStage zoom={zoom} pixels={pixelsOf(a, box.current)} inPage>
          <canvas ref={canvas} class="media-picture" role="img" aria-label="Difference" />
        </ZoomStage>
      </div>
    </Frame>
  );
}

function words({ share, most, mean }: Apart): string {
  if (most === 0) return "The pictures are the same, pixel by pixel.";
  const part = share < 0.01 ? "less than 1%" : percent(share);
  return `${part} of the pixels differ; by ${most} of 255 at most, ${mean.toFixed(1)} on average.`;
}

async function differenceOf(
  a: Found,
  b: Found,
  strength: number,
  target: () => HTMLCanvasElement | null,
): Promise<Apart> {
  const [first, second] = await Promise.all([imageOf(a), imageOf(b)]);
  const size = commonSize(naturalSize(first), naturalSize(second), MOST_PIXELS);
  const apart = difference(pixelsIn(first, size), pixelsIn(second, size), strength);
  const canvas = target();
  if (canvas !== null) {
    canvas.width = size.width;
    canvas.height = size.height;
    canvas
      .getContext("2d")
      ?.putImageData(new ImageData(apart.pixels, size.width, size.height), 0, 0);
  }
  return apart;
}

async function imageOf(found: Found): Promise<HTMLImageElement> {
  const image = new Image();
  image.src = pictureUrl(found) ?? "";
  await image.decode();
  return image;
}

function naturalSize(image: HTMLImageElement) {
  return { width: image.naturalWidth, height: image.naturalHeight };
}

function pixelsIn(image: HTMLImageElement, size: { width: number; height: number }) {
  const canvas = new OffscreenCanvas(size.width, size.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (context === null) throw new Error("no canvas");
  context.drawImage(image, 0, 0, size.width, size.height);
  return context.getImageData(0, 0, size.width, size.height).data;
}
