import { expect, test } from "vitest";
import { exactInteger } from "../src/api/exact_json";
import { shortValue, valueText } from "../src/ui/values";

test.each([
  ["a text", "a red fox", "a red fox"],
  ["a number", 0.5, "0.5"],
  ["no", false, "false"],
  ["nothing", null, "–"],
  ["a list", [1, "a"], '[1,"a"]'],
])("%s", (_, value, text) => {
  expect(valueText(value)).toBe(text);
});

test("large seeds keep their digits", () => {
  expect(valueText(exactInteger("18446744073709551615"))).toBe("18446744073709551615");
});

test("short ones are on one line", () => {
  expect(shortValue("a\n  b")).toBe("a b");
  expect(shortValue("abcdefgh", 5)).toBe("abcd…");
  expect(shortValue(83.87066458083825)).toBe("83.8707");
  expect(shortValue(12345678)).toBe("12345678");
});
