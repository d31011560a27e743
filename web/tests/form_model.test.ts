import { describe, expect, it } from "vitest";
import { exactInteger, parseExact } from "../src/api/exact_json";
import { readDescription } from "../src/views/run/examples";
import {
  type Control,
  type FormField,
  type FormNode,
  faultOf,
  findingsByPlace,
  makeModel,
  paramsOf,
  randomSeed,
  readNumber,
  slides,
  valuesFromQuery,
  valuesToQuery,
} from "../src/views/run/form_model";

function field(name: string, changes: Partial<FormField> = {}): FormField {
  return { name, type: "INT", value: 1, given: true, required: true, ...changes };
}

function node(id: string, fields: FormField[], title = `Node ${id}`): FormNode {
  return {
    node_id: id,
    class_type: "Some",
    title,
    known: true,
    output_node: false,
    description: "",
    position: null,
    links: [],
    fields,
  };
}

function control(changes: Partial<Control> = {}): Control {
  const made = makeModel([node("2", [field("octaves")])], []).groups[0]?.controls[0];
  if (made === undefined) throw new Error("no control");
  return { ...made, ...changes };
}

describe("the form of a workflow", () => {
  it("puts texts, files and seeds first, and leaves dull inputs to all settings", () => {
    const model = makeModel(
      [
        node("1", [
          field("filename_prefix", { type: "STRING", value: "a" }),
          field("seed", { seed: true }),
          field("octaves"),
        ]),
        node("2", [field("text", { type: "STRING", value: "", multiline: true })]),
        node("3", [field("image", { type: "COMBO", upload: "image", value: "a.png" })]),
      ],
      [],
    );
    expect(model.main.map((each) => each.target)).toEqual(["3.image", "2.text", "1.seed"]);
    expect(model.groups.flatMap((each) => each.controls)).toHaveLength(5);
  });

  it("shows declared inputs by their labels, with what the node says of them", () => {
    const declared = {
      name: "words",
      targets: ["Caption.text"],
      type: "string",
      label: "What it says",
      description: null,
      default: null,
      minimum: null,
      maximum: null,
      choices: null,
      required: false,
    };
    const fields = [field("text", { type: "STRING", value: "Hi", multiline: true })];
    const [main] = makeModel([node("10", fields, "Caption")], [declared]).main;
    expect(main).toMatchObject({
      target: "words",
      places: ["10.text"],
      label: "What it says",
      kind: "lines",
      value: "Hi",
    });
  });

  it("names what was changed and what the workflow lacks", () => {
    const lacking = control({ target: "2.mode", isMissing: true, value: "fast" });
    expect(paramsOf([lacking, control()], new Map([["2.octaves", 3]]))).toEqual({
      "2.mode": "fast",
      "2.octaves": 3,
    });
  });

  it("keeps values in the URL and reads them again, with every digit", () => {
    const seed = exactInteger("18446744073709551615");
    const values = new Map<string, unknown>([
      ["2.seed", seed],
      ["1.text", "a & b = c?"],
    ]);
    const { query } = valuesToQuery(values);
    const read = valuesFromQuery(
      new URLSearchParams(new URLSearchParams(query).toString()),
      parseExact,
    );
    expect(String(read.get("2.seed"))).toBe("18446744073709551615");
    expect(read.get("1.text")).toBe("a & b = c?");
  });

  it("leaves values that are too long out of the URL", () => {
    expect(valuesToQuery(new Map([["1.text", "x".repeat(5000)]]))).toEqual({
      query: {},
      fits: false,
    });
  });

  it("takes no half numbers", () => {
    expect(readNumber("1.5", true)).toHaveProperty("fault");
    expect(readNumber("", false)).toHaveProperty("fault");
    expect(readNumber("1e3", false)).toEqual({ value: 1000 });
  });

  it("offers a slider only where a hand can hit its steps", () => {
    expect(slides(control({ minimum: 1, maximum: 12, step: 1 }))).toBe(true);
    expect(slides(control({ minimum: 0, maximum: 2 ** 64, step: 1 }))).toBe(false);
    expect(slides(control({ minimum: null, maximum: 3 }))).toBe(false);
  });

  it("rolls seeds within what the input takes", () => {
    expect(randomSeed(control({ minimum: 5, maximum: 6 }), () => 0.999)).toBe(5);
    expect(randomSeed(control({ minimum: null, maximum: null }), () => 0)).toBe(0);
  });
});

describe("findings", () => {
  const finding = {
    stage: "syntax" as const,
    severity: "error" as const,
    error_code: "SCHEMA_VALIDATION_ERROR",
    message: "Node '2' (NoiseImage), input 'octaves': 99 is bigger than the maximum 12.",
    node_id: "2",
    path: "2.inputs.octaves",
  };

  it("are shown at their field, without saying again where that is", () => {
    const { byPlace } = findingsByPlace([finding]);
    expect(faultOf(control(), byPlace)).toBe("99 is bigger than the maximum 12.");
  });

  it("of the whole are apart", () => {
    const { others } = findingsByPlace([{ ...finding, path: null, node_id: null }]);
    expect(others).toHaveLength(1);
  });
});

describe("a description", () => {
  it("gives its heading and its first sentence", () => {
    expect(readDescription("# Aurora\n\nNorthern lights over\na sky. More.\n")).toEqual({
      title: "Aurora",
      first: "Northern lights over a sky.",
    });
  });
});
