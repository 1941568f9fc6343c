/**
 * Each session's taint and untrusted flag, as files that only brokerd writes (specification 4; contracts
 * 3 and 8). Neither ever goes down.
 */
import * as z from "zod";
import type { SessionId } from "../proto/ids.ts";
import { parseStrict } from "../proto/json.ts";
import { fromUtf8, utf8 } from "../proto/text.ts";
import { DataClass, higherClass } from "../proto/tools.ts";
import { type Files, readBounded } from "./files.ts";
import type { SessionState } from "./policy.ts";

const State = z.strictObject({ taint: DataClass, untrusted: z.boolean() });

/** No state file is larger: ours have some 40 bytes. */
const MAX_STATE_BYTES = 4096;

/** A session that has seen nothing yet. */
export const FRESH: SessionState = { taint: "private", untrusted: false };

/** A state that exists but cannot be read or parsed. */
export class StateUnreadable extends Error {}

export class SessionStates {
  readonly #files: Files;
  readonly #directory: string;

  /** `directory`: `<home>/broker/sessions`, which exists. */
  constructor(files: Files, directory: string) {
    this.#files = files;
    this.#directory = directory;
  }

  /** The state of `session`. Throws `StateUnreadable`. */
  read(session: SessionId): SessionState {
    return this.#read(session) ?? FRESH;
  }

  /** What is on disk of `session`; null where it has no file, so that it has seen nothing yet. */
  #read(session: SessionId): SessionState | null {
    const path = this.#path(session);
    let bytes: Uint8Array | null;
    try {
      if (!this.#files.lstat(this.#directory)?.isDirectory) {
        throw new StateUnreadable(`${this.#directory} is not a directory`);
      }
      // Without following: a link to nothing is there, and is no fresh session.
      const found = this.#files.lstat(path);
      if (found === null) return null;
      bytes = readBounded(this.#files, path, MAX_STATE_BYTES, found.isFile);
    } catch (error) {
      if (error instanceof StateUnreadable) throw error;
      throw new StateUnreadable(`${path} cannot be read`, { cause: error });
    }
    if (bytes === null) throw new StateUnreadable(`${path} is not a regular file`);
    const content = bytes.length > MAX_STATE_BYTES ? null : fromUtf8(bytes);
    const state = State.safeParse(content === null ? undefined : parseStrict(content));
    if (!state.success) throw new StateUnreadable(`${path} does not parse as a session's state`);
    return state.data;
  }

  /**
   * Raises the state of `session` by what it has just seen, and gives the state that is on disk then.
   * Throws where it is not known to be there: the caller lets no content out.
   */
  raise(session: SessionId, seen: SessionState): SessionState {
    const before = this.read(session);
    const state: SessionState = {
      taint: higherClass(before.taint, seen.taint),
      untrusted: before.untrusted || seen.untrusted,
    };
    // Written even where nothing rises: an earlier write may not have reached the disk.
    this.#write(session, state);
    return state;
  }

  /** The state of `session`, which is on disk then as it is. Throws where it is not known to be there. */
  confirm(session: SessionId): SessionState {
    const state = this.#read(session);
    // What was read may be in memory only, as above.
    if (state !== null) this.#write(session, state);
    return state ?? FRESH;
  }

  #write(session: SessionId, state: SessionState): void {
    const path = this.#path(session);
    const bytes = utf8(JSON.stringify(state));
    const temporary = `${path}.tmp`;
    // Whatever a crash or somebody else left there is replaced, never opened.
    if (this.#files.lstat(temporary) !== null) this.#files.remove(temporary);
    const file = this.#files.create(temporary);
    try {
      if (file.write(bytes, null) !== bytes.length) throw new Error(`${temporary}: a short write`);
      file.sync();
    } finally {
      file.close();
    }
    this.#files.rename(temporary, path);
    this.#files.syncDirectory(this.#directory);
  }

  #path(session: SessionId): string {
    return `${this.#directory}/${session}.json`;
  }
}
