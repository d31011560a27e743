/** How far two pictures of one size are apart, pixel by pixel. Pure. */

export interface Apart {
  /** The difference as a picture: black where they are the same. */
  pixels: Uint8ClampedArray<ArrayBuffer>;
  /** The share of pixels that differ at all, 0 to 1. */
  share: number;
  /** The largest difference of a colour, 0 to 255. */
  most: number;
  /** The mean of all colours of all pixels, 0 to 255. */
  mean: number;
}

/** `a` and `b`: red, green, blue, alpha by turns. `strength` makes small differences seen. */
export function difference(a: Uint8ClampedArray, b: Uint8ClampedArray, strength: number): Apart {
  const pixels = new Uint8ClampedArray(a.length);
  let differing = 0;
  let most = 0;
  let sum = 0;
  for (let at = 0; at < a.length; at += 4) {
    // Clear pixels have a colour too, but nobody sees it.
    const red = apart(a, b, at, 0);
    const green = apart(a, b, at, 1);
    const blue = apart(a, b, at, 2);
    const clear = Math.abs((a[at + 3] as number) - (b[at + 3] as number));
    const top = Math.max(red, green, blue, clear);
    if (top > 0) differing += 1;
    if (top > most) most = top;
    sum += red + green + blue;
    pixels[at] = Math.max(red, clear) * strength;
    pixels[at + 1] = Math.max(green, clear) * strength;
    pixels[at + 2] = Math.max(blue, clear) * strength;
    pixels[at + 3] = 255;
  }
  const count = a.length / 4;
  return {
    pixels,
    share: count === 0 ? 0 : differing / count,
    most,
    mean: count === 0 ? 0 : sum / (count * 3),
  };
}

function apart(a: Uint8ClampedArray, b: Uint8ClampedArray, at: number, colour: number): number {
  if (a[at + 3] === 0 && b[at + 3] === 0) return 0;
  return Math.abs((a[at + colour] as number) - (b[at + colour] as number));
}

/** The size at which two pictures are compared: that of the larger, but no more than so many. */
export function commonSize(
  a: { width: number; height: number },
  b: { width: number; height: number },
  mostPixels: number,
): { width: number; height: number } {
  const larger = a.width * a.height >= b.width * b.height ? a : b;
  const shrink = Math.min(1, Math.sqrt(mostPixels / Math.max(1, larger.width * larger.height)));
  return {
    width: Math.max(1, Math.floor(larger.width * shrink)),
    height: Math.max(1, Math.floor(larger.height * shrink)),
  };
}
