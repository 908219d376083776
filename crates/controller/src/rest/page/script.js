"use strict";

// Everything that is shown comes in as text, never as markup: nothing of an answer
// can become part of the page.

const METHODS = ["get", "post", "put", "patch", "delete"];
const byId = (id) => document.getElementById(id);

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

// Texts have nothing but paragraphs and `code`.
function inline(text) {
  const parts = (text || "").split("`");
  // A single backtick begins nothing.
  if (parts.length % 2 === 0) return [text];
  return parts.map((part, n) => (n % 2 ? make("code", {}, part) : part));
}

function prose(text) {
  const paragraphs = (text || "").split(/\n\n+/).filter(Boolean);
  return paragraphs.map((paragraph) => make("p", {}, inline(paragraph)));
}

function nameOf(reference) {
  return decodeURIComponent(reference.split("/").pop());
}

function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) {
    const name = nameOf(schema.$ref);
    return make("a", { href: "#schema-" + name }, name);
  }
  const choices = schema.oneOf || schema.anyOf || schema.allOf;
  if (choices) {
    const span = make("span", {});
    choices.forEach((choice, n) => span.append(...(n ? [" or ", typeOf(choice)] : [typeOf(choice)])));
    return span;
  }
  const types = [].concat(schema.type || "any");
  if (types.includes("array")) return make("span", {}, "list of ", typeOf(schema.items));
  if (schema.enum) return schema.enum.join(" | ");
  return types.join(" or ");
}

function limits(schema) {
  const words = { minimum: "from", maximum: "up to", maxItems: "at most", default: "default" };
  const given = Object.entries(words).filter(([name]) => schema && schema[name] !== undefined);
  return given.map(([name, word]) => word + " " + JSON.stringify(schema[name])).join(", ");
}

function table(heads, rows) {
  if (!rows.length) return null;
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)));
  const body = rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell))));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
}

function schemaTable(schema) {
  const required = new Set(schema.required || []);
  const rows = Object.entries(schema.properties || {}).map(([name, member]) => [
    make("code", {}, name + (required.has(name) ? " *" : "")),
    typeOf(member),
    inline([member.description, limits(member)].filter(Boolean).join(" ")),
  ]);
  return table(["Member", "Type", "Meaning"], rows);
}

// A body to begin with: all members, with values of the right type. One that can be
// a dry run is one.
function sample(schema, all, depth) {
  if (!schema || depth > 8) return null;
  if (schema.$ref) return sample(all[nameOf(schema.$ref)], all, depth + 1);
  if (schema.example !== undefined) return schema.example;
  const type = [].concat(schema.type || "any")[0];
  if (type === "object") {
    const members = Object.entries(schema.properties || {});
    const value = (name, member) => name === "dryRun" || sample(member, all, depth + 1);
    return Object.fromEntries(members.map(([name, member]) => [name, value(name, member)]));
  }
  if (type === "array") return [sample(schema.items, all, depth + 1)];
  if (type === "boolean") return false;
  if (type === "integer" || type === "number") return 0;
  return schema.enum ? schema.enum[0] : "";
}

function tryIt(method, path, operation, schemas) {
  const fields = (operation.parameters || []).map((parameter) => {
    const input = make("input", { "aria-label": parameter.name, autocomplete: "off" });
    return { parameter, input };
  });
  const content = operation.requestBody && operation.requestBody.content["application/json"];
  const body = content && make("textarea", { "aria-label": "body", spellcheck: "false" });
  if (body) body.value = JSON.stringify(sample(content.schema, schemas, 0), null, 2);
  const answer = make("pre", { hidden: "", "aria-live": "polite" });
  const stop = make("button", { type: "button", hidden: "" }, "Stop");

  async function send() {
    let target = path;
    const query = new URLSearchParams();
    for (const { parameter, input } of fields) {
      if (parameter.in === "path" && input.value === "") {
        input.focus();
        return;
      }
      if (parameter.in === "path") {
        target = target.replace("{" + parameter.name + "}", encodeURIComponent(input.value));
      } else if (input.value !== "") {
        query.append(parameter.name, input.value);
      }
    }
    const text = query.toString();
    if (text) target += "?" + text;
    const isDry = body && /"dryRun"\s*:\s*true/.test(body.value);
    if (method !== "get" && !isDry && !window.confirm("This changes the cluster: go on?")) return;
    const headers = {};
    const token = byId("token").value.trim();
    if (token) headers.Authorization = "Bearer " + token;
    if (body) headers["Content-Type"] = "application/json";
    const abort = new AbortController();
    stop.onclick = () => abort.abort();
    stop.hidden = false;
    answer.hidden = false;
    answer.textContent = method.toUpperCase() + " " + target + "\n";
    try {
      const options = { method: method.toUpperCase(), headers, signal: abort.signal };
      if (body) options.body = body.value;
      const response = await fetch(target, options);
      answer.append(response.status + " " + response.statusText + "\n\n");
      await show(response, answer);
    } catch (error) {
      answer.append(error.name === "AbortError" ? "\nstopped" : "\n" + error);
    }
    stop.hidden = true;
  }

  const rows = fields.map(({ parameter, input }) => [
    make("code", {}, parameter.name + (parameter.required ? " *" : "")),
    make("span", {}, typeOf(parameter.schema)),
    inline([parameter.description, limits(parameter.schema)].filter(Boolean).join(" ")),
    input,
  ]);
  const button = make("button", { type: "button", onclick: send }, "Try it");
  return [
    rows.length ? make("h4", {}, "Parameters") : null,
    table(["Name", "Type", "Meaning", "Value"], rows),
    content ? make("h4", {}, "Body: ", typeOf(content.schema)) : null,
    body || null,
    make("p", {}, button, " ", stop),
    answer,
  ];
}

async function show(response, answer) {
  const kind = response.headers.get("content-type") || "";
  if (!kind.startsWith("text/event-stream")) {
    const text = await response.text();
    try {
      answer.append(JSON.stringify(JSON.parse(text), null, 2));
    } catch {
      answer.append(text);
    }
    return;
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    answer.append(value);
    answer.scrollTop = answer.scrollHeight;
  }
}

function operationView(method, path, operation, schemas) {
  const answers = Object.entries(operation.responses || {}).map(([status, response]) => {
    const content = Object.values(response.content || {})[0];
    return [make("code", {}, status), content ? typeOf(content.schema) : "", inline(response.description)];
  });
  const summary = make(
    "summary", {},
    make("span", { class: "method " + method }, method), " ",
    make("span", { class: "path" }, path), " ",
    make("span", { class: "dim" }, inline(operation.summary)),
  );
  const inside = make(
    "div", { class: "inside" },
    ...prose(operation.description),
    ...tryIt(method, path, operation, schemas),
    make("h4", {}, "Answers"),
    table(["Status", "Body", "Meaning"], answers),
  );
  const view = make("details", { class: "operation", id: operation.operationId }, summary, inside);
  view.dataset.text = [method, path, operation.summary, operation.description].join(" ").toLowerCase();
  return view;
}

function schemaView(name, schema) {
  const inside = make("div", { class: "inside" }, ...prose(schema.description));
  const members = schemaTable(schema);
  if (members) inside.append(members);
  else inside.append(make("p", {}, typeOf(schema)));
  const values = (schema.oneOf || []).filter((it) => it.const !== undefined || it.enum);
  if (values.length) {
    const rows = values.map((it) => [make("code", {}, it.const || it.enum[0]), inline(it.description)]);
    inside.append(table(["Value", "Meaning"], rows));
  }
  const summary = make("summary", {}, make("code", {}, name));
  const view = make("details", { class: "schema", id: "schema-" + name }, summary, inside);
  view.dataset.text = (name + " " + (schema.description || "")).toLowerCase();
  return view;
}

function openTarget() {
  const target = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") {
    target.hidden = false;
    target.open = true;
    target.scrollIntoView();
  }
}

function search() {
  const wanted = byId("search").value.trim().toLowerCase();
  for (const view of document.querySelectorAll("details.operation, details.schema")) {
    view.hidden = wanted !== "" && !view.dataset.text.includes(wanted);
  }
}

function build(description) {
  const { info, paths } = description;
  const schemas = (description.components || {}).schemas || {};
  document.title = info.title + " API";
  byId("title").textContent = info.title + " API " + info.version;
  byId("about").replaceChildren(...prose(info.description));
  const place = byId("operations");
  const contents = byId("contents");
  place.replaceChildren();
  const section = (title, text) => {
    place.append(make("h2", {}, title), ...prose(text));
    const list = make("ul", {});
    contents.append(make("strong", {}, title), list);
    return list;
  };
  for (const tag of description.tags || []) {
    const list = section(tag.name, tag.description);
    for (const [path, item] of Object.entries(paths)) {
      for (const method of METHODS) {
        const operation = item[method];
        if (!operation || !(operation.tags || []).includes(tag.name)) continue;
        place.append(operationView(method, path, operation, schemas));
        const link = make("a", { href: "#" + operation.operationId }, inline(operation.summary || path));
        list.append(make("li", {}, link));
      }
    }
  }
  const list = section("schemas", "The bodies. Members with * are always there.");
  for (const [name, schema] of Object.entries(schemas).sort()) {
    place.append(schemaView(name, schema));
    list.append(make("li", {}, make("a", { href: "#schema-" + name }, name)));
  }
  byId("search").addEventListener("input", search);
  window.addEventListener("hashchange", openTarget);
  openTarget();
}

fetch("/openapi.json")
  .then((response) => {
    if (!response.ok) throw new Error("status " + response.status);
    return response.json();
  })
  .then(build)
  .catch((error) => {
    byId("operations").replaceChildren(make("p", {}, "The description cannot be shown: " + error.message));
  });
