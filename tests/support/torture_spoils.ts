/** Ways to spoil what brokerd left behind, for the tests of the torture harness's checker. */
import assert from "node:assert/strict";
import type { Finding } from "../../scripts/torture/checker.ts";
import {
  answer,
  argumentsOf,
  FILE,
  hashOf,
  type Json,
  NEXT,
  Scene,
  ZEROS,
} from "./torture_scene.ts";

export type Spoil = (scene: Scene) => void;

/** Changes the text of the file `name` before it is written. */
export function change(name: string, to: (text: string) => string): Spoil {
  return (scene) => {
    scene.spoil = (texts) => {
      const text = texts[name] ?? "";
      texts[name] = to(text);
      assert.notEqual(texts[name], text, "something was spoilt");
    };
  };
}

export const replaceIn = (name: string, from: string | RegExp, to: string) =>
  change(name, (text) => text.replace(from, to));
export const addTo = (name: string, more: string) => change(name, (text) => text + more);

/** All of `spoils`. */
export const both = (...spoils: Spoil[]): Spoil => (scene) =>
  spoils.forEach((spoil) => spoil(scene));
export const mayBeTorn: Spoil = (scene) => void (scene.mayBeTorn = true);

/** The event at `at` of a file with `more` in it. */
export function spoilEvent(at: number, more: Json, name = FILE): Spoil {
  return (scene) => {
    const events = scene.events[name];
    assert(events?.[at] !== undefined);
    events[at] = { ...events[at], ...more };
  };
}

/** More records at the end of the log, from seq 11 on. */
export const logged = (...events: Json[]): Spoil => (scene) =>
  void scene.events[NEXT]?.push(...events);

/** The frames of the call `id` instead of its own. */
export const framed = (id: string, ...answers: unknown[]): Spoil => (scene) => {
  scene.calls = scene.calls.map((seen) => seen.call === id ? { ...seen, answers } : seen);
};
export const told = (id: string, ...bodies: Json[]) => framed(id, ...bodies.map(answer));

/** One more call, and its frames. */
export const called = (session: string, call: string, ...bodies: Json[]): Spoil => (scene) =>
  void scene.calls.push(scene.call(session, call, ...bodies));

export const ran = (call: string, tool = "read_file"): Spoil => (scene) =>
  void scene.runs.push({ tool, arguments: argumentsOf(call) });

export const error = (code: string) => ({
  v: 1,
  kind: "error",
  final: true,
  body: { code, message: "" },
});
export const owner = (
  kind: "approve" | "refuse",
  approval: number,
  answer: unknown,
): Spoil =>
(scene) => void (scene.owner = [...scene.owner, { kind, approval, answer }]);
export const approved = (outcome: Json) => ({ kind: "approve_result", body: { outcome } });

export const state = (session: string, text: string): Spoil => (scene) =>
  void (scene.states[session] = text);
export const before = (session: string, taint: string, untrusted: boolean): Spoil => (scene) =>
  void scene.before.push([session, { taint, untrusted }]);

/** A directory at `place` of the scene, on top of what was written. */
export const blocked = (place: (scene: Scene) => string): Spoil => (scene) => {
  scene.afterwards = () => {
    Deno.removeSync(place(scene), { recursive: true });
    Deno.mkdirSync(place(scene));
  };
};
/** A file where the directory `place` was. */
export const filed = (place: (scene: Scene) => string): Spoil => (scene) => {
  scene.afterwards = () => {
    Deno.removeSync(place(scene), { recursive: true });
    Deno.writeTextFileSync(place(scene), "");
  };
};

export const SECRET = { taint: "secret", untrusted: true };
export const NO_GRANT = { grant: null, grant_sha256: null };
export const content = (text: string, more: Json = {}) => ({
  ...{ status: "result", content: text, class: "private", untrusted: false, truncated: false },
  ...more,
});
export const failed = (message: string) => ({ status: "failed", message });
export const DENIED = { status: "denied", reason: "audit_unavailable" };
export const NOT_RECORDED = failed("the result could not be recorded");
export const TOO_MANY = failed("too many approvals are pending");

export const headOf = (seq: number, hash: string) =>
  `${JSON.stringify({ seq, hash }).padEnd(127)}\n`;

export const TORN = '{"seq":11,"time":"2026';

/** `torn` at the end of the log, and a recovery that describes `covered`. */
export function recovered(torn: string, covered = torn, more: Json = {}): Spoil {
  return change(NEXT, (text) => {
    const event = {
      ...{ type: "recovery", torn_bytes: new TextEncoder().encode(covered).length },
      torn_sha256: hashOf(covered),
    };
    const time = "2026-12-02T10:00:00.000Z";
    const prev = hashOf(text.trimEnd().split("\n").at(-1) ?? "");
    return `${text}${torn}\n${JSON.stringify({ seq: 11, time, prev, event, ...more })}\n`;
  });
}

/** A whole record that follows the log, without its newline. */
export const WHOLE = `{"seq":11,"time":"2026-12-02T10:00:00.000Z","prev":"${ZEROS}",` +
  `"event":{"type":"recovery","torn_bytes":1,"torn_sha256":"${ZEROS}"}}`;

/** How each thing is spoilt, and the beginning or a part of what must be found. */
export type Cases = Readonly<Record<string, readonly [wanted: string, spoil: Spoil]>>;

/** Each of `cases` gives a finding of its kind. */
export async function findEach(
  t: Deno.TestContext,
  kind: Finding["kind"],
  cases: Cases,
): Promise<void> {
  for (const [name, [wanted, spoil]] of Object.entries(cases)) {
    await t.step(name, () => {
      using scene = new Scene();
      spoil(scene);
      const { findings } = scene.check();
      const found = findings.some((one) => one.kind === kind && one.what.includes(wanted));
      assert(found, `${wanted} is not among ${JSON.stringify(findings, null, 1)}`);
    });
  }
}

/** Each of `cases` gives no finding. */
export async function passEach(
  t: Deno.TestContext,
  cases: Readonly<Record<string, Spoil>>,
): Promise<void> {
  for (const [name, spoil] of Object.entries(cases)) {
    await t.step(name, () => {
      using scene = new Scene();
      spoil(scene);
      assert.deepEqual(scene.check().findings, []);
    });
  }
}
