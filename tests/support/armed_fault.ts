/** What goes wrong at one of the next operations of a process, as a test arms it. */
import type { Files, OpenFile } from "../../broker/files.ts";
import type { Pick } from "./losing_files.ts";
import type { Operation } from "./watched_files.ts";

/** The broker's directories, by a word in their paths. */
export type Place = "audit" | "sessions" | "grants";

export interface Arm {
  /** How many operations of that kind come first. */
  readonly after: number;
  /** Any operation, only one that changes the disk or makes a change durable, or only one of this name. */
  readonly among: "all" | "changes" | keyof Files | keyof OpenFile;
  /** Only what is done there; "": anywhere. */
  readonly place: "" | Place;
  readonly what: Action;
}

/**
 * An error is thrown; of a write so many bytes are taken; or the process ends there, with the machine
 * where `loss` says what that loses.
 */
export type Action =
  | { readonly do: "throw"; readonly code: "EIO" | "ENOSPC" }
  | { readonly do: "cut"; readonly bytes: number }
  | { readonly do: "end"; readonly loss: Pick | null };

const CHANGES = new Set([
  ...["makeDirectory", "openAppend", "openUpdate", "create", "write", "truncate"],
  ...["sync", "syncDirectory", "rename", "remove"],
]);

/** Whether an operation, whose `name` is its whole path, is done there. */
export function isIn(place: "" | Place, { name }: Operation): boolean {
  return name.includes(`/${place}`);
}

/** One `Arm`, until it has gone off. */
export class ArmedFault {
  readonly #arm: Arm;
  #left: number;

  constructor(arm: Arm) {
    this.#arm = arm;
    this.#left = arm.after;
  }

  /** What goes wrong at this operation, or null. */
  at(operation: Operation): Action | null {
    const { what, among, place } = this.#arm;
    const isAmong = among === "all" ||
      (among === "changes" ? CHANGES.has(operation.what) : operation.what === among);
    if (!isAmong || !isIn(place, operation)) return null;
    if (what.do === "cut" && operation.what !== "write") return null;
    this.#left -= 1;
    return this.#left < 0 ? what : null;
  }
}
