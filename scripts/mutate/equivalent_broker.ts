/** The equivalent mutants of broker/, each line with what becomes of it and why that is the same. */
import type { Lines } from "./equivalent.ts";

export const BROKER: Lines = {
  "broker/paths.ts": [
    {
      within: "longestContaining",
      from:
        'if (isInside(directory, path) && directory.length > (longest ?? "").length) longest = directory;',
      to: {
        'if (isInside(directory, path) && directory.length >= (longest ?? "").length) longest = directory;':
          "two directories of one length that contain one path are the same text",
      },
    },
  ],
  "broker/hosts.ts": [
    {
      within: "",
      from: String.raw`const IP_ENDING = /\.([0-9]+|0x[0-9a-f]*)$/;`,
      to: {
        [String.raw`const IP_ENDING = /\.([0-9]*|0x[0-9a-f]*)$/;`]:
          "an empty last label has been refused before",
      },
    },
    {
      within: "",
      from: String.raw`const URL_FORM = /^https:\/\/([a-z0-9.-]+)(?::443)?(?:\/[\x21-\x7e]*)?$/;`,
      to: {
        [String.raw`const URL_FORM = /^https:\/\/([a-z0-9.-]*)(?::443)?(?:\/[\x21-\x7e]*)?$/;`]:
          "an empty host is refused by hostProblem",
      },
    },
  ],
  "broker/args.ts": [
    {
      within: "",
      from: "const MAX_MARKS = 16;",
      to: {
        "const MAX_MARKS = 17;": "no valid arguments have nearly as many",
        "const MAX_MARKS = 15;": "no valid arguments have nearly as many",
      },
    },
    {
      within: "parseArguments",
      from: "if (hasMoreMarks(text, MAX_MARKS)) return null;",
      to: {
        "if (false) return null;": "the shape refuses them too, and only takes longer",
      },
    },
  ],
  "broker/grant_rules.ts": [
    {
      within: "rememberedProblems",
      from: 'const [host = "", ...more] = hosts;',
      to: {
        'const [host = "mutant", ...more] = hosts;':
          "an http_fetch grant without hosts is refused for that; asked for the types",
      },
    },
    {
      within: "",
      from: 'shell: { paths: "optional", hosts: "none" },',
      to: {
        'shell: { hosts: "none" },': "optional is whatever is neither required nor none",
        'shell: { paths: "", hosts: "none" },': "optional is whatever is neither required nor none",
      },
    },
    {
      within: "at",
      from: 'const key = path.join(".");',
      to: { 'const key = path.join("");': "the keys that are looked for stay different" },
    },
    {
      within: "at",
      from: "lines.set(key, line);",
      to: { ";": "the line is found again each time: slower, and the same" },
    },
    {
      within: "readGrant",
      from: "if (!id.success || !tool.success || problems.length > 0) return problems;",
      to: {
        "if (false || !tool.success || problems.length > 0) return problems;":
          "a bad id is among the problems; asked for the types",
        "if (!id.success && !tool.success || problems.length > 0) return problems;":
          "a bad id or tool is among the problems; asked for the types",
        "if (!id.success || false || problems.length > 0) return problems;":
          "a bad tool is among the problems; asked for the types",
      },
    },
  ],
  "broker/explain.ts": [
    {
      within: "",
      from: 'const VERDICTS = ["decides", "loses", "ruled_out"] as const;',
      to: {
        'const VERDICTS = ["", "loses", "ruled_out"] as const;':
          "what is in no list ranks before what is",
        'const VERDICTS = ["loses", "ruled_out"] as const;':
          "what is in no list ranks before what is",
      },
    },
    {
      within: "rank",
      from: "const rank = ({ verdict }: Candidate) => VERDICTS.indexOf(verdict);",
      to: {
        "const rank = ({ verdict }: Candidate) => VERDICTS.lastIndexOf(verdict);":
          "no verdict is there twice",
      },
    },
    {
      within: "candidateOf",
      from:
        'if (against.length > 0 || typeof coverage === "string") return of("ruled_out", against);',
      to: {
        'if (against.length > 0 || false) return of("ruled_out", against);':
          "a gap is among what is against; asked for the types",
        'if (against.length > 0 || typeof coverage === "") return of("ruled_out", against);':
          "a gap is among what is against; asked for the types",
      },
    },
    {
      within: "standsAside",
      from: 'const asked = grant.remembered?.grant ?? "";',
      to: {
        'const asked = grant.remembered.grant ?? "";':
          "only what is remembered stands aside; asked for the types",
        "const asked = grant.remembered?.grant;":
          "only what is remembered stands aside; asked for the types",
        'const asked = grant.remembered?.grant ?? "mutant";':
          "only what is remembered stands aside; asked for the types",
      },
    },
    {
      within: "coverOf",
      from: 'return `its path ${quote(matchedPath ?? "")} contains ${quote(args.path)}`;',
      to: {
        "return `its path ${quote(matchedPath)} contains ${quote(args.path)}`;":
          "what covers a path has one that contains it; asked for the types",
        'return `its path ${quote(matchedPath ?? "mutant")} contains ${quote(args.path)}`;':
          "what covers a path has one that contains it; asked for the types",
      },
    },
    {
      within: "coverOf",
      from: ': `its path ${quote(matchedPath ?? "")} contains ${quote(args.cwd)}`;',
      to: {
        ": `its path ${quote(matchedPath)} contains ${quote(args.cwd)}`;":
          "what covers a path has one that contains it; asked for the types",
        ': `its path ${quote(matchedPath ?? "mutant")} contains ${quote(args.cwd)}`;':
          "what covers a path has one that contains it; asked for the types",
      },
    },
    {
      within: "gapOf",
      from: 'const called = quote(place ?? "");',
      to: {
        'const called = quote(place ?? "mutant");': "where it is shown there is a path or a cwd",
      },
    },
    {
      within: "gapOf",
      from: 'words: `it remembers ${quote(grant.remembered?.path ?? "")} alone, not ${called}`,',
      to: {
        'words: `it remembers ${quote(grant.remembered.path ?? "")} alone, not ${called}`,':
          "this gap is of what remembers a path; asked for the types",
        "words: `it remembers ${quote(grant.remembered?.path)} alone, not ${called}`,":
          "this gap is of what remembers a path; asked for the types",
        'words: `it remembers ${quote(grant.remembered?.path ?? "mutant")} alone, not ${called}`,':
          "this gap is of what remembers a path; asked for the types",
      },
    },
  ],
  "broker/policy.ts": [
    {
      within: "settle",
      from: "if (chosen === null) return deny(reason, null, missed?.hint ?? null);",
      to: {
        "if (chosen === null) return deny(reason, null, missed?.hint);":
          "what is left out of a call of deny is null",
      },
    },
    {
      within: "standInFor",
      from: "if (remembered?.grant !== id || remembered.sha256 !== sha256) continue;",
      to: {
        "if (remembered.grant !== id || remembered.sha256 !== sha256) continue;":
          "what may stand in remembers something; asked for the types",
      },
    },
    {
      within: "match",
      from: "const expired = grant.expires !== null && now >= grant.expires;",
      to: {
        "const expired = true && now >= grant.expires;": "no text is >= null; asked for the types",
      },
    },
    {
      within: "goesBefore",
      from: "const byMode = GRANT_MODES.indexOf(a.mode) - GRANT_MODES.indexOf(b.mode);",
      to: {
        "const byMode = GRANT_MODES.lastIndexOf(a.mode) - GRANT_MODES.indexOf(b.mode);":
          "each mode stands once in the list",
        "const byMode = GRANT_MODES.indexOf(a.mode) - GRANT_MODES.lastIndexOf(b.mode);":
          "each mode stands once in the list",
      },
    },
    {
      within: "goesBefore",
      from: "return byMode < 0 || (byMode === 0 && a.id < b.id);",
      to: {
        "return byMode < 0 || (byMode === 0 && a.id <= b.id);": "no two grants have one id",
      },
    },
    {
      within: "coverByConstraints",
      from: "const covers = host !== null && hosts.some((pattern) => hostMatches(pattern, host));",
      to: {
        "const covers = true && hosts.some((pattern) => hostMatches(pattern, host));":
          "arguments whose URL has no host are refused before; asked for the types",
      },
    },
  ],
  "broker/runner.ts": [
    {
      within: "run",
      from:
        'if (!mayRun || covered === null) throw new TypeError("this decision lets nothing run");',
      to: {
        'if (!mayRun || false) throw new TypeError("this decision lets nothing run");':
          "a decision that lets its call run covers it; asked for the types",
      },
    },
  ],
  "broker/audit_files.ts": [
    {
      within: "",
      from: "const CHUNK_BYTES = 1024 * 1024;",
      to: {
        "const CHUNK_BYTES = 1025 * 1024;": "how much is read at once changes nothing else",
        "const CHUNK_BYTES = 1023 * 1024;": "how much is read at once changes nothing else",
        "const CHUNK_BYTES = 1024 * 1025;": "how much is read at once changes nothing else",
        "const CHUNK_BYTES = 1024 * 1023;": "how much is read at once changes nothing else",
      },
    },
    {
      within: "",
      from: "const LEAST_CHUNK_BYTES = 16 * 1024;",
      to: {
        "const LEAST_CHUNK_BYTES = 17 * 1024;": "how much is read at once changes nothing else",
        "const LEAST_CHUNK_BYTES = 15 * 1024;": "how much is read at once changes nothing else",
        "const LEAST_CHUNK_BYTES = 0 * 1024;": "how much is read at once changes nothing else",
        "const LEAST_CHUNK_BYTES = 16 / 1024;": "how much is read at once changes nothing else",
        "const LEAST_CHUNK_BYTES = 16 * 1025;": "how much is read at once changes nothing else",
        "const LEAST_CHUNK_BYTES = 16 * 1023;": "how much is read at once changes nothing else",
        "const LEAST_CHUNK_BYTES = 16 * 0;": "how much is read at once changes nothing else",
      },
    },
    {
      within: "inspect",
      from: "if ((files.stat(`${directory}/${name}`)?.size ?? 0) > 0) filled.push(name);",
      to: {
        "if ((files.stat(`${directory}/${name}`).size ?? 0) > 0) filled.push(name);":
          "the file has just been opened; asked for the types",
        "if ((files.stat(`${directory}/${name}`)?.size) > 0) filled.push(name);":
          "the file has just been opened; asked for the types",
        "if ((files.stat(`${directory}/${name}`)?.size ?? 1) > 0) filled.push(name);":
          "the file has just been opened; asked for the types",
        "if ((files.stat(`${directory}/${name}`)?.size ?? (-1)) > 0) filled.push(name);":
          "the file has just been opened; asked for the types",
      },
    },
    {
      within: "failed",
      from:
        'const verifier = new ChainVerifier({ head, expected: null }, { nextSeq: 0, prev: "", failure });',
      to: {
        'const verifier = new ChainVerifier({ head, expected: null }, { nextSeq: 0, prev: "mutant", failure });':
          "nothing goes on after a failure that has no line",
      },
    },
    {
      within: "lastLine",
      from: "for (let read = 0; read < size;) {",
      to: {
        "for (let read = (-1); read < size;) {": "one byte is read first, and then all of them",
      },
    },
    {
      within: "lastLine",
      from: "if (start >= 0 || from === 0) return { bytes: line.subarray(start + 1), ended };",
      to: {
        "if (start > 0 || from === 0) return { bytes: line.subarray(start + 1), ended };":
          "where a chunk begins with the newline one more is read, and the line is the same",
        "if (start >= 1 || from === 0) return { bytes: line.subarray(start + 1), ended };":
          "where a chunk begins with the newline one more is read, and the line is the same",
      },
    },
    {
      within: "eachLine",
      from:
        "const chunk = new Uint8Array(Math.min(CHUNK_BYTES, file.stat().size + LEAST_CHUNK_BYTES));",
      to: {
        "const chunk = new Uint8Array(Math.max(CHUNK_BYTES, file.stat().size + LEAST_CHUNK_BYTES));":
          "how much is read at once changes nothing else",
      },
    },
  ],
  "broker/audit_startup.ts": [
    {
      within: "acceptChain",
      from: "const afterHead = head === null ? 0 : head.seq + 1;",
      to: {
        "const afterHead = head === null ? 1 : head.seq + 1;":
          "the line that fails counts, so that afterLines is 1 or more",
        "const afterHead = head === null ? (-1) : head.seq + 1;":
          "the line that fails counts, so that afterLines is 1 or more",
      },
    },
    {
      within: "acceptChain",
      from:
        'return { status: "open", position, recovered: null, accepted: failure, head: "rewrite" };',
      to: {
        'return { status: "open", position, recovered: null, accepted: failure, head: "" };':
          "it is rewritten unless nothing is asked for",
      },
    },
    {
      within: "acceptChain",
      from: 'if (end.last === null) throw new Error("a failure of a line in a log without lines");',
      to: { "if (end.last === null) ;": "there is no such failure; it is there for a bug" },
    },
    {
      within: "recover",
      from: "if (end.torn !== null && end.last !== null) {",
      to: {
        "if (end.torn !== null && true) {": "what is torn is a last line; asked for the types",
      },
    },
    {
      within: "recover",
      from: "} else if (end.unended && end.last !== null) {",
      to: {
        "} else if (end.unended && true) {":
          "what lacks its newline is a last line; asked for the types",
      },
    },
    {
      within: "recover",
      from: 'const head = end.unended || end.torn !== null ? "rewrite" : "nothing";',
      to: {
        'const head = end.unended || end.torn !== null ? "" : "nothing";':
          "whatever is not nothing, nor synced too, rewrites it",
      },
    },
  ],
  "broker/audit_log.ts": [
    {
      within: "#openHead",
      from: "if (size > HEAD_BYTES) file.truncate(HEAD_BYTES);",
      to: {
        "if (size >= HEAD_BYTES) file.truncate(HEAD_BYTES);":
          "a file of just that size stays as it is",
      },
    },
    {
      within: "append",
      from: "const name = newest !== null && newest > today ? newest : today;",
      to: {
        "const name = true && newest > today ? newest : today;":
          "null is not above a text; asked for the types",
        "const name = newest !== null && newest >= today ? newest : today;":
          "where both are the same text either will do",
      },
    },
    {
      within: "#isUndisturbed",
      from: "return found?.identity === current.identity && found.size === current.size;",
      to: {
        "return found.identity === current.identity && found.size === current.size;":
          "what is thrown is caught, and is the same answer",
      },
    },
    {
      within: "#lose",
      from: 'this.#mode = "lost";',
      to: { 'this.#mode = "";': "whatever is neither open nor latched is lost" },
    },
    {
      within: "#closeCurrent",
      from: "this.#current?.file.close();",
      to: { "this.#current.file.close();": "what is thrown is caught" },
    },
    {
      within: "#writeHead",
      from: "file.truncate(0);",
      to: { "file.truncate((-1));": "the runtime takes a size below nothing for nothing" },
    },
    {
      within: "#closeHead",
      from: "this.#head?.file.close();",
      to: { "this.#head.file.close();": "what is thrown is caught" },
    },
    {
      within: "",
      from: '#mode: Mode = "latched";',
      to: { '#mode: Mode = "";': "set by start(), which comes first" },
    },
    {
      within: "",
      from: '#position: Position = { nextSeq: 0, prev: "", newest: null };',
      to: {
        "#position: Position = { nextSeq: 0, newest: null };": "set by start(), which comes first",
        '#position: Position = { nextSeq: 0, prev: "" };': "set by start(), which comes first",
        '#position: Position = { nextSeq: 0, prev: "mutant", newest: null };':
          "set by start(), which comes first",
      },
    },
  ],
};
