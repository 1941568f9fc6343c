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
// Whole runs of labels: the time to look through a text grows with its length, not with the square.
const HOST = /[a-z0-9_-]+(?:\.[a-z0-9_-]+)*/gi;
const ENCODED_LABEL = /(?:^|\.)xn--/i;
/** Nothing longer is a host name (specification 3, "Hosts"). */
const MAX_HOST_LENGTH = 253;

function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  return code <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\u{${hex}}`;
}

function decodeHosts(value: string): string {
  return value.replace(HOST, (host) => {
    // What stands right before a host, such as the n of a JSON \n, must not hide it.
    const start = ENCODED_LABEL.test(host) ? 0 : host.search(/xn--/i);
    if (start < 0 || host.length > MAX_HOST_LENGTH) return host;
    const name = host.slice(start).toLowerCase();
    const decoded = domainToUnicode(name);
    return decoded === "" || decoded === name ? host : `${host} (${decoded})`;
  });
}

/** `value` on one line as data; a host with an `xn--` label is followed by its decoded form. */
export function display(value: string): string {
  return decodeHosts(value).replace(HIDDEN, escapeCharacter);
}

/** As `display`, but newlines and tabs stay: for the model's own text (contracts 8). */
export function displayProse(value: string): string {
  return decodeHosts(value).replace(HIDDEN_BUT_LAYOUT, escapeCharacter);
}

/**
 * `value` as JSON text that shows as data too: what `display` escapes is escaped in JSON's own form, so
 * that reading it gives the same value.
 */
export function displayJson(value: object): string {
  const units = (hidden: string) => hidden.split("").map(escapeCharacter).join("");
  return JSON.stringify(value).replace(HIDDEN, units);
}
