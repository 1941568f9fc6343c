/**
 * Text and integers as every message and record holds them (contracts, preamble).
 * Pure: no clock, no files, no randomness.
 */
import * as z from "zod";
import { Buffer, isAscii } from "node:buffer";

/** Well-formed Unicode: a string with a lone surrogate has no UTF-8 form and is refused. */
export const text = z.string().refine((value) => value.isWellFormed(), "not well-formed Unicode");

/** `u64` of the specification: a safe integer, 0 to 2^53-1. */
export const u64 = z.int().min(0);

const encoder = new TextEncoder();

/** Bytes of `value` in UTF-8. All limits of the specification count these. */
export function utf8(value: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(value);
}

/** The number of bytes of `value` in UTF-8. */
export function utf8Length(value: string): number {
  // Nothing is encoded, which takes twenty times as long for a path.
  return Buffer.byteLength(value);
}

// ignoreBOM: a byte-order mark stays in the text, where the JSON and TOML readers refuse it.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text of `bytes`, or null where they are not UTF-8. */
export function fromUtf8(bytes: Uint8Array): string | null {
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

// Not fatal, which takes four times as long: what is ASCII is well-formed.
const asciiDecoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** The text of `bytes` where all of them are ASCII, so that each is one character of it; else null. */
export function asciiText(bytes: Uint8Array): string | null {
  return isAscii(bytes) ? asciiDecoder.decode(bytes) : null;
}

/** `words` as one word of a command line of the shell. */
export function shellWord(words: string): string {
  return /^[\w@%+=:,./-]+$/.test(words) ? words : `'${words.replaceAll("'", `'\\''`)}'`;
}

/** Ends a `switch` over a union: does not compile while a case is missing. */
export function assertNever(value: never): never {
  throw new Error(`unexpected value: ${JSON.stringify(value)}`);
}
