/**
 * The line on stderr that says how far a long reading of the log has come. It is written over in place with a
 * carriage return and spaces, by no escape sequence, and is gone at the end. Pure: the time and the terminal
 * are handed in.
 */
import { cut } from "./fit.ts";
import type { Io } from "./io.ts";

/** Told of each line of the log that was read, with its length in bytes. */
export type LineRead = (bytes: number) => void;

/** Nobody wants to know. */
export const unwatched: LineRead = () => {};

/** What takes less is not spoken of, in milliseconds. */
const DELAY_MS = 500;
/** How often the line is written, in milliseconds. */
const EVERY_MS = 200;
/** The clock is looked at after so many bytes. */
const LOOK_BYTES = 256 * 1024;

export interface Reading {
  /** What is being done, as `verifying the log`. */
  readonly what: string;
  /** Bytes to read; 0 where that is not known. The log may grow beyond it. */
  readonly total: number;
}

/** How far a reading has come: `done` bytes and `records` in `ms` milliseconds. */
export interface Done {
  readonly done: number;
  readonly records: number;
  readonly ms: number;
}

/** `verifying the log: 42 %, 183,000 records/s`. */
export function progressLine({ what, total }: Reading, { done, records, ms }: Done): string {
  const percent = total > 0 ? `${Math.min(100, Math.floor(100 * done / total))} %, ` : "";
  const rate = Math.round(records * 1000 / Math.max(1, ms));
  return `bxctl: ${what}: ${percent}${String(rate).replace(/\B(?=(\d{3})+$)/g, ",")} records/s`;
}

export class Progress {
  readonly #io: Io;
  readonly #reading: Reading;
  readonly #start: number;
  readonly #width: number;
  /** When the line is written next. */
  #next: number;
  #done = 0;
  #records = 0;
  #unlooked = 0;
  /** What stands on the line. */
  #shown = "";

  /** Call where `io.statusWidth` is not null. `delayMs`: what takes less is not spoken of. */
  constructor(io: Io, reading: Reading, delayMs = DELAY_MS) {
    this.#io = io;
    this.#reading = reading;
    this.#start = io.now();
    this.#next = this.#start + delayMs;
    // In the last column some terminals go on to the next line.
    this.#width = (io.statusWidth ?? 0) - 1;
  }

  readonly lineRead: LineRead = (bytes) => {
    this.#done += bytes;
    this.#records += 1;
    this.#unlooked += bytes;
    if (this.#unlooked < LOOK_BYTES) return;
    this.#unlooked = 0;
    const now = this.#io.now();
    if (now < this.#next) return;
    this.#next = now + EVERY_MS;
    const ms = now - this.#start;
    this.#show(progressLine(this.#reading, { done: this.#done, records: this.#records, ms }));
  };

  /** Takes the line away. */
  end(): void {
    if (this.#shown === "") return;
    this.#show("");
    this.#io.prompt("\r");
  }

  #show(text: string): void {
    const line = cut(text, this.#width);
    this.#io.prompt(`\r${line.padEnd(this.#shown.length)}`);
    this.#shown = line;
  }
}
