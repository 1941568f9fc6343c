/** Lengths of time as the owner writes them: `30m`, `1h`, `7d`. Pure. */

/** The longest that `approve --remember` remembers an answer, in milliseconds: 30 days. */
export const MAX_REMEMBER_MS = 30 * 86_400_000;

const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The milliseconds that `value` means, more than none; null where it is no such length of time. */
export function durationMs(value: string): number | null {
  const [, count = "", unit = ""] = /^([1-9]\d{0,5})([mhd])$/.exec(value) ?? [];
  const ms = Number(count) * (UNITS[unit] ?? 0);
  return ms > 0 ? ms : null;
}
