/** What can be wrong with a JSON text that has one byte form: every way, at every place. Pure. */

type Node =
  | { readonly raw: string }
  | { readonly list: readonly Node[] }
  | { readonly object: readonly Entry[] };
/** A key as it is written, quotes included, and its value. */
type Entry = readonly [key: string, value: Node];

/** One wrong form of a text. */
export interface BadForm {
  /** What is wrong, after the place: `body.tool: a number for text`. */
  readonly what: string;
  readonly json: string;
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function nodeOf(value: unknown): Node {
  if (Array.isArray(value)) return { list: value.map(nodeOf) };
  if (!isTable(value)) return { raw: JSON.stringify(value) };
  return { object: Object.entries(value).map(([key, one]) => [JSON.stringify(key), nodeOf(one)]) };
}

function write(node: Node): string {
  if ("raw" in node) return node.raw;
  if ("list" in node) return `[${node.list.map(write).join(",")}]`;
  return `{${node.object.map(([key, value]) => `${key}:${write(value)}`).join(",")}}`;
}

const escaped = (text: string) =>
  text.replace(/[a-z0-9]/, (c) => `\\u00${c.charCodeAt(0).toString(16)}`);

function badScalars(raw: string): Record<string, string> {
  const space = { "white space before": ` ${raw}`, "white space after": `${raw}\t` };
  switch (raw[0]) {
    case '"': {
      const inside = raw.slice(1, -1);
      return {
        "a number for text": "7",
        "true for text": "true",
        "a list for text": `[${raw}]`,
        "an object for text": "{}",
        "a lone high surrogate": `"${inside}\\ud800"`,
        "a lone low surrogate": `"\\udc00${inside}"`,
        "a lone surrogate in capitals": `"${inside}\\uD800"`,
        "a control character": `"${inside}\x01"`,
        "an escaped slash": `"${inside}\\/"`,
        "an escaped U+007F": `"${inside}\\u007f"`,
        "hex in capitals": `"${inside}\\u001F"`,
        "an escaped newline by number": `"${inside}\\u000a"`,
        ...(escaped(inside) === inside ? {} : { "an escaped letter": `"${escaped(inside)}"` }),
        ...space,
      };
    }
    case "t":
    case "f":
      return {
        "a number for yes or no": "1",
        "text for yes or no": `"${raw}"`,
        "null for yes or no": "null",
        "capitals": raw.toUpperCase(),
        ...space,
      };
    case "n":
      return { "a number for null": "7", "false for null": "false", "{} for null": "{}", ...space };
    default:
      return {
        "2^53": "9007199254740992",
        "2^53 + 1": "9007199254740993",
        "2^64 - 1": "18446744073709551615",
        "1e400": "1e400",
        ".0": `${raw}.0`,
        "e0": `${raw}e0`,
        "1e3": "1e3",
        "-0": "-0",
        "a leading zero": `0${raw}`,
        "a plus": `+${raw}`,
        "hexadecimal": "0x1",
        "a negative number": "-3",
        "a fraction": "0.5",
        "text for a number": `"${raw}"`,
        "null for a number": "null",
        "true for a number": "true",
        ...space,
      };
  }
}

function badObjects(entries: readonly Entry[]): Record<string, Node> {
  const object = (...changed: Entry[]): Node => ({ object: changed });
  const zero: Node = { raw: "0" };
  const bad: Record<string, Node> = {
    "an unknown key last": object(...entries, ['"x"', zero]),
    "an unknown key first": object(['"x"', { raw: "null" }], ...entries),
    "__proto__ as a key": object(...entries, ['"__proto__"', { raw: "null" }]),
    "an object as __proto__": object(['"__proto__"', object()], ...entries),
    "constructor as a key": object(...entries, ['"constructor"', zero]),
    "an empty key": object(...entries, ['""', zero]),
    "a list for an object": { list: [object(...entries)] },
    "null for an object": { raw: "null" },
    "text for an object": { raw: '"x"' },
    "white space in an object": { raw: `{ ${write(object(...entries)).slice(1)}` },
    "a comma too many": { raw: `${write(object(...entries)).slice(0, -1)},}` },
  };
  if (entries.length > 1) {
    bad["the keys reversed"] = object(...entries.toReversed());
    bad["the keys rotated"] = object(...entries.slice(1), ...entries.slice(0, 1));
  }
  for (const [at, [key, value]] of entries.entries()) {
    bad[`${key} missing`] = object(...entries.toSpliced(at, 1));
    bad[`${key} twice`] = object(...entries.toSpliced(at, 0, [key, value]));
    bad[`${key} twice, the first one wrong`] = object(...entries.toSpliced(at, 0, [key, zero]));
    bad[`${key} again at the end`] = object(...entries, [key, value]);
    bad[`${key} escaped`] = object(...entries.with(at, [escaped(key), value]));
    bad[`${key} in capitals`] = object(...entries.with(at, [key.toUpperCase(), value]));
    bad[`white space after ${key}`] = object(...entries.with(at, [`${key} `, value]));
  }
  return bad;
}

function badLists(list: readonly Node[]): Record<string, Node> {
  return {
    "null for a list": { raw: "null" },
    "an object for a list": { object: [] },
    "null in a list": { list: [...list, { raw: "null" }] },
    "a list in a list": { list: [...list, { list: [] }] },
    "white space in a list": { raw: `[ ${write({ list }).slice(1)}` },
  };
}

function* badNodes(node: Node, place: string): Generator<readonly [what: string, Node]> {
  if ("raw" in node) {
    for (const [what, raw] of Object.entries(badScalars(node.raw))) {
      yield [`${place}: ${what}`, { raw }];
    }
  } else if ("list" in node) {
    for (const [what, bad] of Object.entries(badLists(node.list))) yield [`${place}: ${what}`, bad];
    for (const [at, one] of node.list.entries()) {
      for (const [what, bad] of badNodes(one, `${place}[${at}]`)) {
        yield [what, { list: node.list.with(at, bad) }];
      }
    }
  } else {
    for (const [what, bad] of Object.entries(badObjects(node.object))) {
      yield [`${place}: ${what}`, bad];
    }
    for (const [at, [key, value]] of node.object.entries()) {
      const inner = `${place}${place === "" ? "" : "."}${JSON.parse(key)}`;
      for (const [what, bad] of badNodes(value, inner)) {
        yield [what, { object: node.object.with(at, [key, bad]) }];
      }
    }
  }
}

/** The wrong forms of `json`, which is in its one form. */
export function badForms(json: string): BadForm[] {
  const around = [
    ["white space before", ` ${json}`],
    ["white space after", `${json} `],
    ["a carriage return after", `${json}\r`],
    ["a newline after", `${json}\n`],
    ["a byte-order mark", `\ufeff${json}`],
    ["NUL before", `\0${json}`],
    ["NUL after", `${json}\0`],
    ["the text twice", json + json],
    ["cut by one", json.slice(0, -1)],
    ["cut in half", json.slice(0, json.length / 2)],
    ["nothing", ""],
    ["in a list", `[${json}]`],
    ["as text", JSON.stringify(json)],
  ] as const;
  return [
    ...around.map(([what, bad]) => ({ what, json: bad })),
    ...[...badNodes(nodeOf(JSON.parse(json)), "")].map(([what, node]) => ({
      what,
      json: write(node),
    })),
  ];
}
