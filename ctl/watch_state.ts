/**
 * `bxctl approvals --watch` without its terminal: what is selected, what of it has been on the screen for how
 * long, and whether a key may answer it (docs/decisions.md, 102). Every moment is handed in. Pure.
 */
import { assertNever } from "../proto/text.ts";
import type { Key } from "./watch_keys.ts";
import type { Group } from "./waiting.ts";

/** How long a call must have been on the screen before a key answers it, in milliseconds. */
export const LOOK_MS = 1000;
/** An older list answers nothing, in milliseconds: brokerd is asked every half second. */
export const STALE_MS = 5000;

/** What a drawn screen showed of the selected call. */
export interface Shown {
  readonly approval: number;
  /** All that the lines say, as `contentOf` gives it. */
  readonly content: string;
  /** The screen's size, such as `80x24`: in another one the lines are others. */
  readonly size: string;
  /** Of `total` lines, those from `from` up to but not including `to`. */
  readonly from: number;
  readonly to: number;
  readonly total: number;
}

/** What the owner has had before their eyes, without a break, of the selected call. */
export interface Sight {
  readonly approval: number;
  readonly content: string;
  readonly size: string;
  /** Since when some of it was on the screen. */
  readonly since: number;
  /** Every line before this one was on the screen. */
  readonly seenTo: number;
  readonly total: number;
  /** Since when all of it has been. Null: not yet. */
  readonly wholeSince: number | null;
}

export type AnswerKind = "approve" | "refuse";

/** An answer of the owner that is to be sent, and what they saw when they gave it. */
export interface Answer {
  readonly kind: AnswerKind;
  readonly approval: number;
  readonly content: string;
}

export interface WatchState {
  readonly groups: readonly Group[];
  /** The number of the selected call: the first of its group. Null: none waits. */
  readonly selected: number | null;
  /** The first line of it to show, and how many were shown at last. */
  readonly offset: number;
  readonly page: number;
  readonly sight: Sight | null;
  /** When brokerd sent `groups`; null: not yet. */
  readonly listedAt: number | null;
  /** Why brokerd gave no list at last, in lines that have been through `display`; null: it did. */
  readonly away: readonly string[] | null;
  readonly answer: Answer | null;
  /** The call that was answered last: that it waits no more is no news. */
  readonly answered: number | null;
  /** What the last key or answer came to. */
  readonly status: string;
  readonly quit: boolean;
}

export type WatchEvent =
  | { readonly kind: "list"; readonly groups: readonly Group[] }
  | { readonly kind: "away"; readonly lines: readonly string[] }
  | { readonly kind: "key"; readonly key: Key }
  /** A screen has just been drawn. `shown` null: nothing of the selected call was on it. */
  | { readonly kind: "drawn"; readonly shown: Shown | null }
  /** The answer has been sent, and this came of it. */
  | { readonly kind: "answered"; readonly line: string };

export const START: WatchState = {
  groups: [],
  selected: null,
  offset: 0,
  page: 1,
  sight: null,
  listedAt: null,
  away: null,
  answer: null,
  answered: null,
  status: "",
  quit: false,
};

/** Everything about a call that its lines on the screen depend on; times go by and are not among it. */
export function contentOf({ item, change }: Group): string {
  return JSON.stringify([item, change]);
}

/** The selected call with those like it. */
export function selectedGroup({ groups, selected }: WatchState): Group | null {
  return groups.find(({ item }) => item.approval === selected) ?? null;
}

/** What `event`, at the moment `now` in milliseconds, makes of `state`. `now` never goes back. */
export function next(state: WatchState, event: WatchEvent, now: number): WatchState {
  switch (event.kind) {
    case "list":
      return listed(state, event.groups, now);
    case "away": {
      const { answer } = state;
      const status = answer === null ? state.status : `${answer.approval} was not answered`;
      return { ...state, away: event.lines, sight: null, answer: null, status };
    }
    case "key":
      return pressed(state, event.key, now);
    case "drawn":
      return drawn(state, event.shown, now);
    case "answered":
      return {
        ...state,
        answer: null,
        answered: state.answer?.approval ?? null,
        sight: null,
        status: event.line,
      };
    default:
      return assertNever(event);
  }
}

/**
 * Why no key answers the selected call now, in a few words; null where one does. To refuse, some of it
 * must have been seen for a second; to approve, all of it.
 */
export function whyNot(state: WatchState, kind: AnswerKind, now: number): string | null {
  const { selected, sight, listedAt, away, answer } = state;
  if (answer !== null) return `${answer.approval} is being answered`;
  if (away !== null) return "brokerd does not answer";
  if (selected === null) return "nothing waits";
  if (listedAt === null || now - listedAt > STALE_MS) return "the list is too old";
  if (sight === null || sight.approval !== selected) return `${selected} is not on the screen`;
  const soon = "shown for under 1 s: look, then press";
  if (now - sight.since < LOOK_MS) return soon;
  if (kind === "refuse") return null;
  const { wholeSince, total, seenTo } = sight;
  if (wholeSince === null) return `lines not shown yet: ${total - seenTo}; press space`;
  return now - wholeSince < LOOK_MS ? soon : null;
}

function listed(state: WatchState, groups: readonly Group[], now: number): WatchState {
  const before = selectedGroup(state);
  const fresh = { ...state, groups, listedAt: now, away: null };
  const group = successor(state, before, groups);
  const selected = group?.item.approval ?? null;
  const stays = selected === state.selected;
  // What is another than what was seen has not been seen.
  const sight = stays && group !== null && state.sight?.content === contentOf(group)
    ? state.sight
    : null;
  const ended = !stays && before !== null && before.item.approval !== state.answered
    ? `${before.item.approval} waits no more`
    : null;
  const { answer } = state;
  const target = answer === null
    ? undefined
    : groups.find(({ item }) => item.approval === answer.approval);
  const valid = answer !== null && target !== undefined && contentOf(target) === answer.content;
  const lost = answer === null || valid
    ? null
    : target === undefined
    ? `${answer.approval} waits no more`
    : `${answer.approval} has changed: not answered`;
  return {
    ...fresh,
    selected,
    sight,
    offset: stays ? state.offset : 0,
    answer: valid ? answer : null,
    status: lost ?? ended ?? state.status,
  };
}

/** The group to select of `groups`: that of the selected call, else what stands in its place. */
function successor(
  { groups: old }: WatchState,
  before: Group | null,
  groups: readonly Group[],
): Group | null {
  if (before === null) return groups[0] ?? null;
  const same = groups.find(({ item }) => item.approval === before.item.approval) ??
    groups.find(({ approvals }) => approvals.some((number) => before.approvals.includes(number)));
  const place = Math.min(old.indexOf(before), groups.length - 1);
  return same ?? groups[place] ?? null;
}

function pressed(state: WatchState, key: Key, now: number): WatchState {
  switch (key) {
    case "up":
      return moved(state, -1);
    case "down":
      return moved(state, 1);
    case "page_down":
      return { ...state, offset: state.offset + state.page, status: "" };
    case "page_up":
      return { ...state, offset: Math.max(0, state.offset - state.page), status: "" };
    case "redraw":
      return state;
    case "quit":
      return { ...state, quit: true };
    case "approve":
    case "refuse":
      return answering(state, key, now);
    case "together":
      return notAnswered(state, whyNot(state, "refuse", now) ?? "several keys at once", now);
    default:
      return assertNever(key);
  }
}

function moved(state: WatchState, by: 1 | -1): WatchState {
  const at = state.groups.findIndex(({ item }) => item.approval === state.selected);
  const group = state.groups[at + by];
  if (at < 0 || group === undefined) return { ...state, status: "" };
  return { ...state, selected: group.item.approval, offset: 0, sight: null, status: "" };
}

function answering(state: WatchState, kind: AnswerKind, now: number): WatchState {
  const problem = whyNot(state, kind, now);
  const group = selectedGroup(state);
  if (problem === null && group !== null) {
    const { approval } = group.item;
    const status = `${kind === "approve" ? "approving" : "refusing"} ${approval}`;
    return { ...state, answer: { kind, approval, content: contentOf(group) }, status };
  }
  return notAnswered(state, problem ?? "", now);
}

/** The second begins anew, so that a key that is held down never answers anything. */
function notAnswered(state: WatchState, status: string, now: number): WatchState {
  const { sight } = state;
  const again = sight && {
    ...sight,
    since: now,
    wholeSince: sight.wholeSince === null ? null : now,
  };
  return { ...state, sight: again, status };
}

function drawn(state: WatchState, shown: Shown | null, now: number): WatchState {
  if (shown === null || shown.approval !== state.selected) return { ...state, sight: null };
  const { approval, content, size, from, to, total } = shown;
  const { sight } = state;
  const goesOn = sight !== null && sight.approval === approval && sight.content === content &&
    sight.size === size;
  const since = goesOn ? sight.since : now;
  const before = goesOn ? sight.seenTo : 0;
  // A page that was jumped over is one that was not seen.
  const seenTo = from <= before ? Math.max(before, to) : before;
  const wholeBefore = goesOn ? sight.wholeSince : null;
  const wholeSince = wholeBefore ?? (seenTo >= total ? now : null);
  return {
    ...state,
    sight: { approval, content, size, since, seenTo, total, wholeSince },
    offset: from,
    page: Math.max(1, to - from),
  };
}
