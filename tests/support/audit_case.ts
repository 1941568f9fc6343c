/** Audit logs as files in memory, and the cases of `fixtures/` that say what verifying one must give. */
import { type Anchor, isAuditFileName, parseHead } from "../../proto/audit.ts";
import {
  type Anchors,
  type ChainReport,
  ChainVerifier,
  type ResumePoint,
} from "../../proto/chain.ts";
import { LineSplitter } from "../../proto/lines.ts";

/** One file of a log, its name bare. */
export interface LogFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** A log that was found, with what verifying it must give (`fixtures/vectors/audit/README.md`). */
export interface AuditCase {
  readonly name: string;
  /** The files of the log, in order of names. */
  readonly files: readonly LogFile[];
  readonly anchors: Anchors;
  /** Only these fields of the report are expected. */
  readonly report: Readonly<Record<string, unknown>>;
}

interface Expected {
  readonly arguments?: readonly string[];
  readonly report: Readonly<Record<string, unknown>>;
}

/** The names in `directory`, in order. */
export function namesIn(directory: URL): string[] {
  return [...Deno.readDirSync(directory)].map((entry) => entry.name).sort();
}

/** The names of the directories in `directory`, in order. */
export function directoriesIn(directory: URL): string[] {
  return [...Deno.readDirSync(directory)].filter((entry) => entry.isDirectory)
    .map((entry) => entry.name).sort();
}

/** Reads the case in `directory`, whose address ends in a slash. Needs read permission. */
export function readCase(name: string, directory: URL): AuditCase {
  const expected: Expected = JSON.parse(
    Deno.readTextFileSync(new URL("expected.json", directory)),
  );
  const audit = new URL("audit/", directory);
  const names = namesIn(audit);
  return {
    name,
    files: names.filter(isAuditFileName).map((file) => ({
      name: file,
      bytes: Deno.readFileSync(new URL(file, audit)),
    })),
    anchors: {
      head: names.includes("head.json")
        ? parseHead(Deno.readFileSync(new URL("head.json", audit)))
        : null,
      expected: expectedAnchor(expected.arguments ?? []),
    },
    report: expected.report,
  };
}

function expectedAnchor([option, value]: readonly string[]): Anchor | null {
  if (option === undefined) return null;
  const [seq, hash] = value?.split(":") ?? [];
  if (option !== "--expect" || hash === undefined) throw new Error(`not an anchor: ${value}`);
  return { seq: Number(seq), hash };
}

/** Feeds `files` to a verifier, `chunkSize` bytes at a time. */
export function verify(
  files: readonly LogFile[],
  anchors: Anchors = { head: null, expected: null },
  resume: ResumePoint | null = null,
  chunkSize = 1 << 20,
): ChainReport {
  const verifier = resume === null
    ? new ChainVerifier(anchors)
    : ChainVerifier.resume(resume, anchors);
  for (const { name, bytes } of files) {
    verifier.file(name);
    const splitter = new LineSplitter();
    for (let at = 0; at < bytes.length; at += chunkSize) {
      for (const line of splitter.push(bytes.subarray(at, at + chunkSize))) {
        verifier.line(line.bytes, line.ended);
      }
    }
    const rest = splitter.end();
    if (rest !== null) verifier.line(rest.bytes, rest.ended);
  }
  return verifier.finish();
}

/** Where `report` is not what `expected` says, in words; empty when it is. */
export function differences(report: ChainReport, expected: AuditCase["report"]): string[] {
  return Object.entries(expected)
    .filter(([field, value]) =>
      !fits(Object.entries(report).find(([f]) => f === field)?.[1], value)
    )
    .map(([field, value]) =>
      `${field}: ${JSON.stringify(Object.fromEntries(Object.entries(report))[field])}, not ${
        JSON.stringify(value)
      }`
    );
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether `actual` is `expected`: one of `any_of`, the fields that stand there, `what` a beginning. */
function fits(actual: unknown, expected: unknown): boolean {
  if (isTable(expected)) {
    const { any_of } = expected;
    if (Array.isArray(any_of)) return any_of.some((one) => fits(actual, one));
    return isTable(actual) && Object.entries(expected).every(([key, value]) => {
      if (key !== "what") return fits(actual[key], value);
      return typeof actual[key] === "string" && actual[key].startsWith(String(value));
    });
  }
  if (Array.isArray(expected)) {
    return Array.isArray(actual) && actual.length === expected.length &&
      expected.every((one, index) => fits(actual[index], one));
  }
  return actual === expected;
}
