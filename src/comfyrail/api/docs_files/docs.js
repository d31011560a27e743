"use strict";

// Shows /openapi.json: operations by tag, each opened on demand. Texts become text nodes, never HTML.

const METHODS = ["get", "post", "put", "patch", "delete", "head"];
const DEEPEST = 8;
let api = null;

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// What stands between backticks is code.
function said(text) {
  return (text || "").split("`").map((part, index) => (index % 2 ? make("code", {}, part) : part));
}

function resolve(thing) {
  let found = thing;
  for (let steps = 0; found && found.$ref && steps < 20; steps++) {
    found = found.$ref.slice(2).split("/").reduce((at, name) => at && at[name.replace(/~1/g, "/").replace(/~0/g, "~")], api);
  }
  return found || {};
}

function nameOf(schema) {
  return schema && schema.$ref ? schema.$ref.split("/").pop() : "";
}

function typeOf(schema) {
  if (!schema || !Object.keys(schema).length) return "anything";
  if (schema.$ref) return nameOf(schema);
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  const choices = schema.anyOf || schema.oneOf;
  if (choices) return choices.map(typeOf).join(" | ");
  if (schema.type === "array") return `list of ${typeOf(schema.items)}`;
  const kind = Array.isArray(schema.type) ? schema.type.join(" | ") : schema.type || "anything";
  return schema.format ? `${kind} (${schema.format})` : kind;
}

function limitsOf(schema) {
  const limits = [];
  const words = {
    minimum: "at least", exclusiveMinimum: "more than", maximum: "at most", exclusiveMaximum: "less than",
    minLength: "characters at least", maxLength: "characters at most", maxItems: "entries at most",
    maxProperties: "entries at most", pattern: "like", default: "if not given:",
  };
  for (const [name, word] of Object.entries(words)) {
    if (schema[name] === undefined || schema[name] === null) continue;
    const value = typeof schema[name] === "string" ? schema[name] : JSON.stringify(schema[name]);
    limits.push(/Length|Items|Properties/.test(name) ? `${value} ${word}` : `${word} ${value}`);
  }
  return limits.join(", ");
}

// The objects that a schema is made of: those of its choices and of its items too.
function objectsIn(schema, depth) {
  if (!schema || depth > DEEPEST) return [];
  const found = resolve(schema);
  if (found.properties) return [found];
  const inner = [...(found.anyOf || []), ...(found.oneOf || []), ...(found.items && found.items !== true ? [found.items] : [])];
  return inner.flatMap((each) => objectsIn(each, depth + 1));
}

function fieldsOf(schema, depth) {
  const found = resolve(schema);
  const objects = objectsIn(schema, 0);
  const about = found.description ? make("p", {}, said(found.description)) : null;
  if (!objects.length) return make("div", {}, about, make("p", { class: "type" }, typeOf(schema)));
  const rows = objects.flatMap((object) =>
    Object.entries(object.properties).map(([name, field]) => fieldRow(name, field, object, depth)));
  return make("div", {}, about, make("div", { class: "fields" }, rows));
}

function fieldRow(name, field, object, depth) {
  const isRequired = (object.required || []).includes(name);
  const line = [
    make("code", {}, name), isRequired ? make("span", { class: "required", title: "required" }, " *") : "",
    " ", make("span", { class: "type" }, typeOf(field)), " ",
    said([field.description, limitsOf(field)].filter(Boolean).join(" ")),
  ].flat();
  if (depth >= DEEPEST || !objectsIn(field, 0).length) return make("div", {}, line);
  const row = make("details", {}, make("summary", {}, line));
  row.addEventListener("toggle", () => {
    if (row.open && row.childElementCount === 1) row.append(fieldsOf(field, depth + 1));
  });
  return row;
}

function parametersOf(operation) {
  const rows = (operation.parameters || []).map(resolve).map((each) => {
    const schema = each.schema || {};
    const meaning = [each.description || schema.description, limitsOf(schema)].filter(Boolean).join(" ");
    return make("tr", {},
      make("td", {}, make("code", {}, each.name), each.required ? make("span", { class: "required" }, " *") : ""),
      make("td", {}, each.in), make("td", { class: "type" }, typeOf(schema)), make("td", {}, said(meaning)));
  });
  if (!rows.length) return null;
  const head = ["name", "in", "type", "meaning"].map((word) => make("th", { scope: "col" }, word));
  return make("section", {}, make("h3", {}, "Parameters"),
    make("table", {}, make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows)));
}

function contentOf(content) {
  return Object.entries(content || {}).flatMap(([kind, each]) => [
    make("p", { class: "type" }, kind),
    each.schema && kind.includes("json") ? fieldsOf(each.schema, 0) : null,
    each.example === undefined ? null : make("pre", {}, JSON.stringify(each.example, null, 2)),
  ]);
}

function repliesOf(operation) {
  const rows = Object.entries(operation.responses || {}).map(([status, given]) => {
    const reply = resolve(given);
    const row = make("details", {}, make("summary", {}, make("code", {}, status), ` ${reply.description || ""}`));
    row.addEventListener("toggle", () => {
      if (!row.open || row.childElementCount > 1) return;
      const headers = Object.entries(reply.headers || {}).map(([name, each]) =>
        make("div", {}, make("code", {}, name), " ", said(resolve(each).description)));
      row.append(make("div", { class: "fields" }, contentOf(reply.content), headers));
    });
    return row;
  });
  return make("section", {}, make("h3", {}, "Replies"), rows);
}

function quoted(text) {
  return `'${text.replace(/'/g, "'\\''")}'`;
}

function exampleOf(parameter) {
  const schema = parameter.schema || {};
  const found = parameter.example ?? schema.default ?? (schema.enum || [])[0];
  return found === undefined ? parameter.name.toUpperCase() : String(found);
}

function curlOf(method, path, operation) {
  const parameters = (operation.parameters || []).map(resolve);
  let address = path;
  for (const each of parameters.filter((one) => one.in === "path")) {
    address = address.replace(`{${each.name}}`, exampleOf(each));
  }
  const asked = parameters.filter((each) => each.in === "query" && each.required)
    .map((each) => `${each.name}=${encodeURIComponent(exampleOf(each))}`);
  const words = [`curl -s${method === "head" ? "I" : ""}`];
  if (!["get", "head"].includes(method)) words.push(`-X ${method.toUpperCase()}`);
  words.push(quoted(location.origin + address + (asked.length ? `?${asked.join("&")}` : "")));
  if ((operation.security || []).length) words.push(`-H "Authorization: Bearer $COMFYRAIL_API_KEY"`);
  const [kind, body] = Object.entries((operation.requestBody || {}).content || {})[0] || [];
  if (kind) words.push(`-H ${quoted(`Content-Type: ${kind}`)}`);
  if (kind && kind.includes("json") && body.example !== undefined) words.push(`-d ${quoted(JSON.stringify(body.example, null, 2))}`);
  else if (kind) words.push("--data-binary @FILE");
  return words.join(" \\\n  ");
}

function tryOf(method, path, operation) {
  const text = curlOf(method, path, operation);
  const button = make("button", { type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it by hand";
    }
  });
  return make("section", {}, make("h3", {}, "Try it"), make("pre", {}, text), button);
}

function bodyOf(method, path, operation) {
  const request = operation.requestBody;
  return make("div", { class: "body" },
    make("p", {}, said(operation.description)),
    operation["x-permission"] ? make("p", { class: "type" }, "Permission: ", make("code", {}, operation["x-permission"])) : null,
    parametersOf(operation),
    request ? make("section", {}, make("h3", {}, request.required ? "Body" : "Body (may be left out)"), contentOf(request.content)) : null,
    repliesOf(operation),
    tryOf(method, path, operation));
}

function operationOf(method, path, operation) {
  const row = make("details", { class: `operation${operation.deprecated ? " deprecated" : ""}`, id: operation.operationId },
    make("summary", {},
      make("span", { class: `method ${method}` }, method.toUpperCase()),
      make("span", { class: "path" }, path),
      make("span", { class: "what" }, operation.summary || ""),
      operation.deprecated ? make("span", { class: "mark" }, "deprecated") : null));
  row.dataset.words = [method, path, operation.summary, operation.description, ...(operation.tags || [])].join(" ").toLowerCase();
  row.addEventListener("toggle", () => {
    if (row.open && row.childElementCount === 1) row.append(bodyOf(method, path, operation));
  });
  return row;
}

function groups() {
  const found = new Map((api.tags || []).map((tag) => [tag.name, []]));
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const method of METHODS.filter((each) => methods[each])) {
      const tag = (methods[method].tags || ["other"])[0];
      if (!found.has(tag)) found.set(tag, []);
      found.get(tag).push(operationOf(method, path, methods[method]));
    }
  }
  return [...found].filter(([, rows]) => rows.length);
}

function find(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  let all = 0;
  for (const section of document.querySelectorAll("main section[data-tag]")) {
    let shown = 0;
    for (const row of section.querySelectorAll("details.operation")) {
      row.hidden = !wanted.every((word) => row.dataset.words.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    section.hidden = !shown;
    const link = document.querySelector(`#tags a[href="#${section.id}"]`);
    link.hidden = !shown;
    link.querySelector("span").textContent = String(shown);
    all += shown;
  }
  const none = document.getElementById("none");
  none.hidden = all > 0;
  none.textContent = `Nothing found for '${words.trim()}'.`;
}

function findAll() {
  document.getElementById("search").value = "";
  find("");
}

function openLinked() {
  const row = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (row && row.hidden) findAll();
  if (row && row.tagName === "DETAILS") {
    row.open = true;
    row.scrollIntoView();
  }
}

async function show() {
  const main = document.getElementById("operations");
  try {
    const reply = await fetch("/openapi.json");
    if (!reply.ok) throw new Error(`the server says ${reply.status}`);
    api = await reply.json();
  } catch (error) {
    main.replaceChildren(make("p", { class: "none" }, `The description could not be loaded: ${error.message}. Load the page again.`));
    return;
  }
  document.getElementById("version").textContent = api.info.version;
  document.getElementById("about").textContent = api.info.description || "";
  const all = groups();
  const anchor = (tag) => `tag-${tag.replace(/\W+/g, "-")}`;
  document.getElementById("tags").replaceChildren(...all.map(([tag, rows]) =>
    make("a", { href: `#${anchor(tag)}` }, tag, " ", make("span", {}, String(rows.length)))));
  document.getElementById("tags").addEventListener("click", (event) => event.target.closest("a") && findAll());
  main.replaceChildren(make("p", { id: "none", class: "none", role: "status", hidden: "" }), ...all.map(([tag, rows]) =>
    make("section", { id: anchor(tag), "data-tag": tag }, make("h2", {}, tag), rows)));
  document.getElementById("search").addEventListener("input", (event) => find(event.target.value));
  window.addEventListener("hashchange", openLinked);
  openLinked();
}

show();
