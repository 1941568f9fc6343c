/**
 * The display rules (specification 9, "Arguments are printed as data"; contracts 6). Every text that
 * did not come from the program itself goes through here before it reaches a terminal or a daemon's
 * log: nothing that a model, a client or a file wrote can move the cursor, change colours, reorder or
 * hide text. Nothing is stripped. Pure.
 */
import { domainToUnicode } from "node:url";

// \p{C}: Cc, Cf, Cs, Co, Cn.
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const HIDDEN_BUT_LAYOUT = /(?![\n\t])[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const ENCODED_HOST = /(?:[a-z0-9_-]+\.)*xn--[a-z0-9-]+(?:\.[a-z0-9_-]+)*/gi;

function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  return code <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\u{${hex}}`;
}

function decodeHosts(shown: string): string {
  return shown.replace(ENCODED_HOST, (host) => {
    const decoded = domainToUnicode(host.toLowerCase());
    return decoded === "" || decoded === host
      ? host
      : `${host} (${decoded.replace(HIDDEN, escapeCharacter)})`;
  });
}

/** `value` on one line as data; a host with an `xn--` label is followed by its decoded form. */
export function display(value: string): string {
  return decodeHosts(value.replace(HIDDEN, escapeCharacter));
}

/** As `display`, but newlines and tabs stay: for the model's own text (contracts 8). */
export function displayProse(value: string): string {
  return decodeHosts(value.replace(HIDDEN_BUT_LAYOUT, escapeCharacter));
}
