/** The equivalent mutants of proto/, each line with what becomes of it and why that is the same. */
import type { Lines } from "./equivalent.ts";

export const PROTO: Lines = {
  "proto/escape.ts": [
    {
      within: "escaped",
      from: "const hex = (hidden.codePointAt(0) ?? 0).toString(16);",
      to: {
        "const hex = (hidden.codePointAt(0)).toString(16);":
          "what was found has a character; asked for the types",
        "const hex = (hidden.codePointAt(0) ?? 1).toString(16);":
          "what was found has a character; asked for the types",
        "const hex = (hidden.codePointAt(0) ?? (-1)).toString(16);":
          "what was found has a character; asked for the types",
      },
    },
    {
      within: "escapeCharacter",
      from: "const code = character.codePointAt(0) ?? 0;",
      to: {
        "const code = character.codePointAt(0);": "no matched text is empty; asked for the types",
        "const code = character.codePointAt(0) ?? 1;":
          "no matched text is empty; asked for the types",
        "const code = character.codePointAt(0) ?? (-1);":
          "no matched text is empty; asked for the types",
      },
    },
    {
      within: "escapeCharacter",
      from: 'return code <= 0xffff ? `\\\\u${hex.padStart(4, "0")}` : `\\\\u{${hex}}`;',
      to: {
        'return code <= 65536 ? `\\\\u${hex.padStart(4, "0")}` : `\\\\u{${hex}}`;':
          "U+10000 is a letter and never escaped",
      },
    },
  ],
  "proto/audit.ts": [
    {
      within: "",
      from: "export const Anchor = z.strictObject({ seq: u64, hash: Hash32 });",
      to: {
        "export const Anchor = z.object({ seq: u64, hash: Hash32 });":
          "a text with another key is not what is written for these, and refused for that",
      },
    },
    {
      within: "parseHead",
      from: 'return parseExact(Anchor, content.slice(0, -1).replace(/ +$/, ""));',
      to: {
        'return parseExact(Anchor, content.slice(0, -1).replace(/ *$/, ""));':
          "nothing is replaced by nothing",
      },
    },
  ],
  "proto/audit_scan.ts": [
    {
      within: "",
      from: "const MAX_CHARACTERS = 16 * 1024;",
      to: {
        "const MAX_CHARACTERS = 17 * 1024;": "the full reading gives the same, and takes longer",
        "const MAX_CHARACTERS = 15 * 1024;": "the full reading gives the same, and takes longer",
        "const MAX_CHARACTERS = 16 * 1025;": "the full reading gives the same, and takes longer",
        "const MAX_CHARACTERS = 16 * 1023;": "the full reading gives the same, and takes longer",
      },
    },
    {
      within: "",
      from: 'const OUTCOME = String.raw`(\\{"outcome":"[a-z]+"(?:,"reason":"[a-z_]+")?\\})`;',
      to: {
        'const OUTCOME = String.raw`(\\{"outcome":"[a-z]*"(?:,"reason":"[a-z_]+")?\\})`;':
          "each outcome is looked up whole",
        'const OUTCOME = String.raw`(\\{"outcome":"[a-z]+"(?:,"reason":"[a-z_]*")?\\})`;':
          "each outcome is looked up whole",
      },
    },
    {
      within: "",
      from: 'let day = "";',
      to: {
        'let day = "mutant";': "no line has that for its day",
      },
    },
    {
      within: "",
      from: "let isDay = false;",
      to: {
        "let isDay = true;": "it stands for the day that no line has",
      },
    },
    {
      within: "isRealDay",
      from: "if (date === day) return isDay;",
      to: {
        "if (false) return isDay;": "what is looked at again comes out the same",
      },
    },
    {
      within: "isRealDay",
      from: "day = date;",
      to: {
        ";": "what is looked at again comes out the same",
      },
    },
    {
      within: "",
      from: "const DIGITS = /^[0-9a-f]{64}$/;",
      to: {
        "const DIGITS = /[0-9a-f]{64}$/;": "it is given 64 characters",
        "const DIGITS = /^[0-9a-f]{64}/;": "it is given 64 characters",
      },
    },
    {
      within: "scanLink",
      from: "if (line.length > MAX_CHARACTERS || !line.isWellFormed()) return null;",
      to: {
        "if (false || !line.isWellFormed()) return null;": "the full reading gives the same",
        "if (line.length >= MAX_CHARACTERS || !line.isWellFormed()) return null;":
          "the full reading gives the same",
      },
    },
    {
      within: "scanLink",
      from: 'const type = line.indexOf(\'"type":"\');',
      to: {
        'const type = line.lastIndexOf(\'"type":"\');':
          "what stands later begins no record, and the form is held against the whole line",
      },
    },
    {
      within: "scanLink",
      from: 'const outcome = OUTCOMES.get(found[5] ?? "");',
      to: {
        "const outcome = OUTCOMES.get(found[5]);":
          "no outcome is found by that; asked for the types",
        'const outcome = OUTCOMES.get(found[5] ?? "mutant");':
          "no outcome is found by that; asked for the types",
      },
    },
    {
      within: "scanLink",
      from: 'const outcome = OUTCOMES.get(found[6] ?? "");',
      to: {
        "const outcome = OUTCOMES.get(found[6]);":
          "no outcome is found by that; asked for the types",
        'const outcome = OUTCOMES.get(found[6] ?? "mutant");':
          "no outcome is found by that; asked for the types",
      },
    },
    {
      within: "link",
      from: 'const time = found[2] ?? "";',
      to: {
        "const time = found[2];": "the form has it; asked for the types",
        'const time = found[2] ?? "mutant";': "the form has it; asked for the types",
      },
    },
    {
      within: "link",
      from: 'const day = found[3] ?? "";',
      to: {
        "const day = found[3];": "the form has it; asked for the types",
        'const day = found[3] ?? "mutant";': "the form has it; asked for the types",
      },
    },
    {
      within: "link",
      from: 'const prev = found[4] ?? "";',
      to: {
        "const prev = found[4];": "the form has it; asked for the types",
        'const prev = found[4] ?? "mutant";': "the form has it; asked for the types",
      },
    },
    {
      within: "link",
      from: "if (!isRealDay(day) || prev !== before && !DIGITS.test(prev)) return null;",
      to: {
        "if (!isRealDay(day) || true && !DIGITS.test(prev)) return null;":
          "the hash that is expected has 64 digits",
      },
    },
  ],
  "proto/chain.ts": [
    {
      within: "",
      from: "const NO_ANCHORS: Anchors = { head: null, expected: null };",
      to: {
        "const NO_ANCHORS: Anchors = { expected: null };": "a missing anchor is no anchor",
        "const NO_ANCHORS: Anchors = { head: null };": "a missing anchor is no anchor",
      },
    },
    {
      within: "",
      from: "#lineInFile = 0;",
      to: {
        "#lineInFile = 1;": "set by file() before the first line",
        "#lineInFile = (-1);": "set by file() before the first line",
      },
    },
    {
      within: "constructor",
      from: "this.#head = resume?.prev ?? null;",
      to: { "this.#head = resume?.prev;": "only asked whether it is there" },
    },
    {
      within: "#extend",
      from: "run.hash?.update(NEWLINE).update(bytes);",
      to: {
        "run.hash.update(NEWLINE).update(bytes);":
          "only a run that begins with a line that does not parse is extended, and it has a hash",
      },
    },
    {
      within: "#recovers",
      from: 'return record?.event.type === "recovery" && entry.at.file === run.first.at.file &&',
      to: {
        'return record?.event.type === "recovery" && true &&':
          "a run is settled before the next file begins",
      },
    },
    {
      within: "#breakProblem",
      from:
        'if (at.file === entry.at.file && at.line >= entry.at.line) return "names no line before it";',
      to: {
        'if (false) return "names no line before it";':
          "a failure is found before the line that may accept it; said as the contracts say it",
        'if (at.file === entry.at.file && at.line > entry.at.line) return "names no line before it";':
          "a failure is found before the line that may accept it; said as the contracts say it",
      },
    },
    {
      within: "#isGiven",
      from:
        'return this.#resumed && record?.event.type === "accepted_break" && record.prev === before &&',
      to: {
        'return this.#resumed && record.event.type === "accepted_break" && record.prev === before &&':
          "asked of records only; asked for the types",
        "return this.#resumed && true && record.prev === before &&":
          "no other event has a file, and undefined is less than nothing",
      },
    },
    {
      within: "#acceptBreak",
      from:
        "if (this.#failure === null || this.#breakProblem(entry, this.#failure) !== null) return;",
      to: {
        "if (false || this.#breakProblem(entry, this.#failure) !== null) return;":
          "called only where something has failed; asked for the types",
      },
    },
    {
      within: "#commit",
      from: 'if (record === null) throw new Error("only a record can be verified");',
      to: { "if (record === null) ;": "only records come here; it is there for a bug" },
    },
    {
      within: "#follow",
      from: 'case "recovery":',
      to: { 'case "":': "nothing is done for it either way" },
    },
    {
      within: "#problem",
      from: 'if (record === null) return "does not parse as an audit record";',
      to: {
        'if (false) return "does not parse as an audit record";':
          "asked of records only; asked for the types",
      },
    },
  ],
  "proto/json.ts": [
    {
      within: "parseExact",
      from: "return result.success && JSON.stringify(result.data) === text ? result.data : null;",
      to: {
        "return true && JSON.stringify(result.data) === text ? result.data : null;":
          "no text is what nothing gives; asked for the types",
      },
    },
    {
      within: "hasDuplicateKeyOrLoneSurrogate",
      from: '} else if (token === ":" && last !== null) {',
      to: {
        '} else if (token === ":" && true) {':
          "in valid JSON a string stands before each colon; asked for the types",
      },
    },
    {
      within: "hasDuplicateKeyOrLoneSurrogate",
      from: "if (keys?.has(last)) return true;",
      to: {
        "if (keys.has(last)) return true;":
          "in valid JSON a colon stands in an object; asked for the types",
      },
    },
    {
      within: "hasDuplicateKeyOrLoneSurrogate",
      from: "keys?.add(last);",
      to: { "keys.add(last);": "in valid JSON a colon stands in an object; asked for the types" },
    },
    {
      within: "hasDuplicateKeyOrLoneSurrogate",
      from: `last = token.startsWith('"') ? (JSON.parse(token) as string) : null;`,
      to: {
        [`last = token.endsWith('"') ? (JSON.parse(token) as string) : null;`]:
          "a token that begins with a quotation mark ends with one",
      },
    },
    {
      within: "hasMoreMarks",
      from: "for (let at = 0; at < json.length; at += 1) {",
      to: {
        "for (let at = 0; at <= json.length; at += 1) {": "after the end there is no mark",
        "for (let at = (-1); at < json.length; at += 1) {": "before the beginning there is no mark",
      },
    },
    {
      within: "hasMoreMarks",
      from: String.raw`else if (inString && character === "\\") at += 1;`,
      to: {
        [String.raw`else if (true && character === "\\") at += 1;`]:
          "JSON has no backslash outside of a string",
      },
    },
  ],
  "proto/lines.ts": [
    {
      within: "",
      from: "const LEAST_ROOM = 1024;",
      to: {
        "const LEAST_ROOM = 1025;": "how much room is made changes nothing else",
        "const LEAST_ROOM = 1023;": "how much room is made changes nothing else",
        "const LEAST_ROOM = 0;": "how much room is made changes nothing else",
      },
    },
    {
      within: "",
      from: "#buffer = new Uint8Array(0);",
      to: { "#buffer = new Uint8Array(1);": "how much room is made changes nothing else" },
    },
    {
      within: "#hold",
      from: "if (size > this.#buffer.length) {",
      to: { "if (size >= this.#buffer.length) {": "room is made a little sooner" },
    },
    {
      within: "#hold",
      from: "const larger = new Uint8Array(Math.max(size, 2 * this.#buffer.length, LEAST_ROOM));",
      to: {
        "const larger = new Uint8Array(Math.max(size, 3 * this.#buffer.length, LEAST_ROOM));":
          "how much room is made changes nothing else",
        "const larger = new Uint8Array(Math.max(size, 1 * this.#buffer.length, LEAST_ROOM));":
          "how much room is made changes nothing but how often",
        "const larger = new Uint8Array(Math.max(size, 0 * this.#buffer.length, LEAST_ROOM));":
          "how much room is made changes nothing but how often",
      },
    },
    {
      within: "#hold",
      from: "larger.set(this.#buffer.subarray(0, this.#size));",
      to: {
        "larger.set(this.#buffer);": "what stands after the line is never looked at",
      },
    },
    {
      within: "#take",
      from: "if (this.#size === 0) return rest;",
      to: {
        "if (false) return rest;": "a copy is given instead, with the same bytes",
        "if (this.#size === (-1)) return rest;": "a copy is given instead, with the same bytes",
      },
    },
    {
      within: "#take",
      from: "this.#buffer = new Uint8Array(0);",
      to: { "this.#buffer = new Uint8Array(1);": "how much room is made changes nothing else" },
    },
  ],
};
