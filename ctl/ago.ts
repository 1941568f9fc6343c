/** Times as the owner reads them: `2 min ago`, `expires in 13 min`. Pure: the present is handed in. */
import type { Timestamp } from "../proto/ids.ts";

const format = new Intl.DurationFormat("en", { style: "short", secondsDisplay: "always" });
const formatLong = new Intl.DurationFormat("en", { style: "short" });

/** `ms` milliseconds in the one unit that suits them, rounded; nothing below zero. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const minutes = Math.round(seconds / 60);
  const hours = Math.round(minutes / 60);
  if (seconds < 60) return format.format({ seconds });
  if (minutes < 60) return formatLong.format({ minutes });
  if (hours < 24) return formatLong.format({ hours });
  return formatLong.format({ days: Math.round(hours / 24) });
}

/** How long before `now`, in milliseconds since 1970, `time` was. */
export function ago(time: Timestamp, now: number): string {
  return `${duration(now - Date.parse(time))} ago`;
}

/** How long after `now`, in milliseconds since 1970, something expires. */
export function expiry(time: Timestamp, now: number): string {
  const left = Date.parse(time) - now;
  return left <= 0 ? "expired" : `expires in ${duration(left)}`;
}
