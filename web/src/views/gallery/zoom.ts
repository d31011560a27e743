/** Where one looks at a picture: how near, and at which part. Pure. */

export interface Zoom {
  /** 1: the whole picture fits. */
  scale: number;
  /** How far it is moved from the middle, in widths and heights of the stage. */
  x: number;
  y: number;
}

export const FIT: Zoom = { scale: 1, x: 0, y: 0 };
export const NEAREST = 32;

/** `at`: the place that stays where it is, in parts of the stage from its middle (-0.5 to 0.5). */
export function zoomAt(zoom: Zoom, factor: number, at: { x: number; y: number }): Zoom {
  const scale = Math.min(NEAREST, Math.max(1, zoom.scale * factor));
  const grown = scale / zoom.scale;
  return within({
    scale,
    x: at.x - (at.x - zoom.x) * grown,
    y: at.y - (at.y - zoom.y) * grown,
  });
}

export function moved(zoom: Zoom, x: number, y: number): Zoom {
  return within({ scale: zoom.scale, x: zoom.x + x, y: zoom.y + y });
}

/** No further than to the edge. */
function within({ scale, x, y }: Zoom): Zoom {
  const most = (scale - 1) / 2;
  return { scale, x: clamp(x, most), y: clamp(y, most) };
}

function clamp(value: number, most: number): number {
  return Math.min(most, Math.max(-most, value)) + 0; // no -0
}

interface Size {
  width: number;
  height: number;
}

/** How much smaller, or larger where it `grows`, a picture is that fits the stage. */
function fitOf(picture: Size, stage: Size, grows: boolean): number {
  const fit = Math.min(stage.width / picture.width, stage.height / picture.height);
  return grows ? fit : Math.min(1, fit);
}

function isKnown(picture: Size, stage: Size): boolean {
  return Math.min(picture.width, picture.height, stage.width, stage.height) > 0;
}

/** The scale at which a pixel of the picture is one of the screen; at least that of the fit. */
export function scaleOfPixels(
  picture: Size,
  stage: Size,
  pixelRatio: number,
  grows: boolean,
): number {
  if (!isKnown(picture, stage)) return 1;
  const fit = fitOf(picture, stage, grows);
  return Math.min(NEAREST, Math.max(1, 1 / (fit * pixelRatio)));
}

/** How large a pixel of the picture is on the screen, in per cent. */
export function percentOf(
  zoom: Zoom,
  picture: Size,
  stage: Size,
  pixelRatio: number,
  grows: boolean,
): number {
  if (!isKnown(picture, stage)) return 100;
  return Math.round(zoom.scale * fitOf(picture, stage, grows) * pixelRatio * 100);
}
