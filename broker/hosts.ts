/**
 * Host names, host patterns and URLs (specification 3, "Hosts"; contracts 3). Pure, and without any import, since
 * the egress proxy has what this file has, and starts for each call.
 */

/** The longest host name, in bytes. */
const MAX_HOST_BYTES = 253;
/** The longest URL, in bytes of UTF-8. */
export const MAX_URL_BYTES = 2048;

const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
/** A last label that makes URL readers take the host for an IPv4 address. */
const IP_ENDING = /\.([0-9]+|0x[0-9a-f]*)$/;
// No URL parser of the runtime: it trims, decodes, lowercases and turns \ into /.
const URL_FORM = /^https:\/\/([a-z0-9.-]+)(?::443)?(?:\/[\x21-\x7e]*)?$/;

/** What is wrong with `host` as a host name, or null. */
export function hostProblem(host: string): string | null {
  if (host.length > MAX_HOST_BYTES) return `is longer than ${MAX_HOST_BYTES} bytes`;
  const labels = host.split(".");
  if (labels.length < 2) return "needs at least two labels, as example.com";
  if (!labels.every((label) => LABEL.test(label))) {
    return "has a label that is not 1 to 63 of a-z, 0-9 and - (not at its ends)";
  }
  if (IP_ENDING.test(host)) return "is an IP address in disguise: its last label is a number";
  return null;
}

/** What is wrong with `pattern` as a grant's host: a host name, or `*.` and a host name. */
export function hostPatternProblem(pattern: string): string | null {
  return hostProblem(pattern.startsWith("*.") ? pattern.slice(2) : pattern);
}

/** Whether `host` is covered by `pattern`. Both are valid. `*.example.com` does not cover `example.com`. */
export function hostMatches(pattern: string, host: string): boolean {
  return pattern.startsWith("*.") ? host.endsWith(pattern.slice(1)) : host === pattern;
}

/** The host of `url`, or null where it is not a valid URL of a call. */
export function urlHost(url: string): string | null {
  const host = URL_FORM.exec(url)?.[1];
  // What has the form is ASCII: each character is one byte.
  if (host === undefined || url.length > MAX_URL_BYTES) return null;
  return hostProblem(host) === null ? host : null;
}
