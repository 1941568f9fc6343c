/** How long what a daemon says of itself may be (protocol, `status`). Pure. */

/** At most so many items of each list are sent; their number is sent beside them. */
export const MAX_ITEMS = 16;
/** A text of a status is cut after so many UTF-16 units. */
export const MAX_UNITS = 1000;

/** `value`, well-formed, cut where it is too long for a status. */
export function statusText(value: string): string {
  const whole = value.toWellFormed();
  return whole.length <= MAX_UNITS ? whole : `${whole.slice(0, MAX_UNITS).toWellFormed()}…`;
}
