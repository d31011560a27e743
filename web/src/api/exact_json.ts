/**
 * JSON whose whole numbers keep all their digits. Seeds of ComfyUI have 64 bits, numbers of a browser
 * 53: one that is larger is held as its text, and written as it was read.
 */

interface ModernJson {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context?: { source?: string }) => unknown,
  ): unknown;
  rawJSON?: (text: string) => object;
}

const json = JSON as unknown as ModernJson;

/** A whole number beyond what a browser counts exactly. As a text it has all digits, as a number it is
 * the nearest one. */
export class LargeInteger {
  constructor(private readonly digits: string) {}

  toString(): string {
    return this.digits;
  }

  valueOf(): number {
    return Number(this.digits);
  }

  /** Where a browser has no means to write it as a number it is a text, which the server takes too. */
  toJSON(): unknown {
    return json.rawJSON === undefined ? this.digits : json.rawJSON(this.digits);
  }
}

export function parseExact<T>(text: string): T {
  return json.parse(text, (_, value, context) => {
    if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
    const source = context?.source ?? "";
    return /^-?\d+$/.test(source) ? exactInteger(source) : value;
  }) as T;
}

/** The number that a text says. */
export function exactInteger(text: string): number | LargeInteger {
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : new LargeInteger(BigInt(text).toString());
}
