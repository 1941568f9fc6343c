/**
 * `ChainVerifier`: whether an audit log is whole (specification 5, "Verification"; contracts 5). The
 * one judge of a log, for `brokerd` at its start and for `bxctl audit verify`. Pure: it is fed with
 * lines and answers with a report.
 *
 * A line is judged once the next one has been seen, since only a `Recovery` right after it tells that
 * a broken line was torn by a crash. What waits for its judgement is the `#run`: one line that parses,
 * or lines that do not parse with at most one that does after them.
 */
import { createHash, type Hash } from "node:crypto";
import { type Anchor, type Link, parseLink } from "./audit.ts";
import { type Hash32, sha256, ZERO_HASH } from "./ids.ts";
import { fromUtf8 } from "./text.ts";

/** A line of the log: the file's bare name, and lines counted from 1. */
export interface Location {
  readonly file: string;
  readonly line: number;
}

/** The first failure. Line 0: it concerns no line, and cannot be accepted. */
export interface ChainFailure extends Location {
  readonly what: string;
}

export interface ChainReport {
  /** Verified records. After a failure this and the fields below go as far as the line before it. */
  readonly records: number;
  /** Hash of the last verified line. */
  readonly head: Hash32 | null;
  readonly next_seq: number;
  readonly failure: ChainFailure | null;
  /** The first torn line of each recovery. */
  readonly recoveries: readonly Location[];
  readonly accepted_breaks: readonly Location[];
  /** `seq` of each `ask` decision with no approval after it. */
  readonly abandoned: readonly number[];
  /** `seq` of each allowed or approved decision with no result after it. */
  readonly unfinished: readonly number[];
  /** Records whose time is before that of the record before them. */
  readonly clock_warnings: readonly Location[];
  /** The first line of what a crash left at the end; null after a failure. */
  readonly torn_tail: Location | null;
  /** The `seq` in `head.json`, which the log was held against; null for no check. */
  readonly anchored: number | null;
}

/** What a writer needs beside the report to go on after the last line (contracts 5.2, 5.7). */
export interface ChainEnd {
  /** The log's very last line; null when there is none. */
  readonly last: Location | null;
  /** It has no newline. */
  readonly unended: boolean;
  /** Hash of the log's very last line, whatever it is worth; zeros when there is none. */
  readonly lastLine: Hash32;
  /** Hash of the last verified line, that of the resume point included; zeros when there is none. */
  readonly lastGood: Hash32;
  /** Lines after the last verified one. */
  readonly unverified: number;
  /** The torn tail, as a `Recovery` describes it. */
  readonly torn: { readonly bytes: number; readonly sha256: Hash32 } | null;
}

/** Records that the log must hold, with their hashes (contracts 5.8). */
export interface Anchors {
  /** What `head.json` says. */
  readonly head: Anchor | null;
  /** What the owner kept elsewhere. */
  readonly expected: Anchor | null;
}

const NO_ANCHORS: Anchors = { head: null, expected: null };

/** The last line of the file before the one that a verifier resumes in. */
export interface ResumePoint {
  readonly nextSeq: number;
  readonly prev: Hash32;
  /** Set where that line is bad: a failure, unless the newest file accepts it. */
  readonly failure: ChainFailure | null;
}

/** One line as fed. */
interface Entry {
  readonly at: Location;
  /** The count of lines up to and with this one. */
  readonly index: number;
  readonly hash: Hash32;
  /** Hash of the line right before it, whatever that is. */
  readonly before: Hash32;
  readonly size: number;
  readonly record: Link | null;
}

/** Lines whose judgement waits for the next one. */
interface Run {
  readonly first: Entry;
  /** Size of the lines with the newlines between them, and their hash where `first` does not parse. */
  bytes: number;
  readonly hash: Hash | null;
  /** The run's last line where that parses: no line can follow it in the run. */
  parsed: Entry | null;
}

const NEWLINE = new Uint8Array([0x0a]);

export class ChainVerifier {
  readonly #anchors: Anchors;
  /** Those of them that there are. */
  readonly #anchorList: readonly Anchor[];
  /** Only the newest file is fed: a break that accepts a failure of an older one is taken as given. */
  readonly #resumed: boolean;

  #file = "";
  #lineInFile = 0;
  #lines = 0;
  #lastAt: Location | null = null;
  #lastLine: Hash32;
  #run: Run | null = null;
  /** A line without a newline: the log's last, or a failure once another file goes on. */
  #unended: { readonly entry: Entry; readonly bytes: Uint8Array } | null = null;

  #records = 0;
  #nextSeq: number;
  #head: Hash32 | null;
  #headEntry: Entry | null = null;
  #failure: ChainFailure | null;
  #tornTail: Location | null = null;
  #torn: ChainEnd["torn"] = null;
  readonly #recoveries: Location[] = [];
  readonly #acceptedBreaks: Location[] = [];
  readonly #clockWarnings: Location[] = [];
  readonly #asked = new Set<number>();
  readonly #running = new Set<number>();

  /** Expects the first record ever written, or with `resume` the one after the point it gives. */
  constructor(anchors: Anchors = NO_ANCHORS, resume: ResumePoint | null = null) {
    this.#anchors = anchors;
    this.#anchorList = [anchors.head, anchors.expected].filter((anchor) => anchor !== null);
    this.#resumed = resume !== null;
    this.#nextSeq = resume?.nextSeq ?? 0;
    this.#head = resume?.prev ?? null;
    this.#lastLine = resume?.prev ?? ZERO_HASH;
    this.#failure = resume?.failure ?? null;
  }

  /** Continues in the newest file, after the last line of the file before it. */
  static resume(from: ResumePoint, anchors: Anchors = NO_ANCHORS): ChainVerifier {
    return new ChainVerifier(anchors, from);
  }

  /** Starts the next file, in order of names. Its bare name. */
  file(name: string): void {
    this.#file = name;
    this.#lineInFile = 0;
  }

  /**
   * The next line of the file, without its newline. `hasNewline` is false only for what stands after
   * a file's last newline; where nothing does, that is no line. `bytes` are not kept. `text`: what they say, and
   * `hash`: their SHA-256, where these are known already; they must be that, and are worked out here otherwise.
   */
  line(
    bytes: Uint8Array,
    hasNewline: boolean,
    text: string | null = null,
    hash: Hash32 | null = null,
  ): void {
    if (this.#lineInFile === 0) this.#closeOlderFile();
    this.#lineInFile += 1;
    this.#lines += 1;
    const entry: Entry = {
      at: { file: this.#file, line: this.#lineInFile },
      index: this.#lines,
      hash: hash ?? sha256(bytes),
      before: this.#lastLine,
      size: bytes.length,
      record: parseLink(text ?? fromUtf8(bytes), this.#lastLine),
    };
    this.#lastAt = entry.at;
    this.#lastLine = entry.hash;
    if (hasNewline) this.#next(entry, bytes);
    else this.#unended = { entry, bytes: bytes.slice() };
  }

  /**
   * The log goes on in the file `name`, which cannot be read: a failure that has no line, unless a line
   * before it fails. `finish` comes next. Whether the end of the file before is torn stays undecided.
   */
  unreadable(name: string, what: string): void {
    if (this.#run?.parsed !== null) this.#settle();
    this.#run = null;
    this.#unended = null;
    this.#fail({ file: name, line: 0 }, what);
  }

  /** Ends the log and gives the report. */
  finish(): ChainReport {
    if (this.#unended !== null) this.#finishUnended(this.#unended.entry, this.#unended.bytes);
    else if (this.#run?.parsed === null) this.#tear(this.#run);
    else this.#settle();
    if (this.#failure === null) this.#checkAnchorsReached();
    return {
      records: this.#records,
      head: this.#records === 0 ? null : this.#head,
      next_seq: this.#nextSeq,
      failure: this.#failure,
      recoveries: this.#recoveries,
      accepted_breaks: this.#acceptedBreaks,
      abandoned: [...this.#asked],
      unfinished: [...this.#running].sort((a, b) => a - b),
      clock_warnings: this.#clockWarnings,
      torn_tail: this.#failure === null ? this.#tornTail : null,
      anchored: this.#anchors.head?.seq ?? null,
    };
  }

  /** After `finish`: where a writer goes on. */
  end(): ChainEnd {
    return {
      last: this.#lastAt,
      unended: this.#unended !== null,
      lastLine: this.#lastLine,
      lastGood: this.#head ?? ZERO_HASH,
      unverified: this.#lines - (this.#headEntry?.index ?? 0),
      torn: this.#torn,
    };
  }

  /** A line that ends in a newline. */
  #next(entry: Entry, bytes: Uint8Array): void {
    const run = this.#run;
    if (this.#failure !== null) {
      this.#acceptBreak(entry);
    } else if (run !== null && this.#recovers(entry, run)) {
      this.#recover(entry, run);
    } else if (run !== null && run.parsed === null) {
      this.#extend(run, entry, bytes);
    } else {
      this.#settle();
      if (this.#failure !== null) this.#acceptBreak(entry);
      else this.#run = this.#start(entry, bytes);
    }
  }

  /** The log ends in a line without a newline. */
  #finishUnended(last: Entry, bytes: Uint8Array): void {
    const run = this.#run;
    // Once something has failed nothing waits.
    if (run !== null) {
      // A whole Recovery that lacks only its newline is one.
      if (this.#recovers(last, run)) return this.#recover(last, run);
      if (run.parsed !== null || this.#breakProblem(last, run.first.at) === null) this.#settle();
    }
    if (this.#failure !== null) return this.#acceptBreak(last);
    if (this.#run === null) {
      // So is a break in its right place.
      if (last.record?.event.type === "accepted_break" && this.#problem(last) === null) {
        return this.#commit(last);
      }
      this.#run = this.#start(last, bytes);
    } else {
      this.#extend(this.#run, last, bytes);
    }
    this.#tear(this.#run);
  }

  /** A later file goes on: what waits at the end of an older one is not torn, it is broken. */
  #closeOlderFile(): void {
    const unended = this.#unended?.entry;
    this.#unended = null;
    this.#settle();
    if (unended !== undefined) {
      this.#fail(unended.at, "the last line of an older file has no newline");
    }
  }

  #start(entry: Entry, bytes: Uint8Array): Run {
    const torn = entry.record === null;
    return {
      first: entry,
      bytes: entry.size,
      hash: torn ? createHash("sha256").update(bytes) : null,
      parsed: torn ? null : entry,
    };
  }

  #extend(run: Run, entry: Entry, bytes: Uint8Array): void {
    run.bytes += NEWLINE.length + entry.size;
    run.hash?.update(NEWLINE).update(bytes);
    if (entry.record !== null) run.parsed = entry;
  }

  /** The run is the log's torn tail. */
  #tear(run: Run): void {
    this.#tornTail = run.first.at;
    this.#torn = { bytes: run.bytes, sha256: this.#hashOf(run) };
  }

  #hashOf(run: Run): Hash32 {
    return run.hash?.copy().digest("hex") ?? run.first.hash;
  }

  /** Judges the run, now that nothing recovers it. */
  #settle(): void {
    const run = this.#run;
    this.#run = null;
    if (run === null) return;
    if (run.first.record === null) {
      this.#fail(run.first.at, "does not parse as an audit record");
      if (run.parsed !== null) this.#acceptBreak(run.parsed);
      return;
    }
    const problem = this.#problem(run.first);
    if (problem === null) this.#commit(run.first);
    else this.#fail(run.first.at, problem);
  }

  /** Whether `entry` is the `Recovery` of exactly the lines of `run` (contracts 5.2). */
  #recovers(entry: Entry, run: Run): boolean {
    const record = entry.record;
    return record?.event.type === "recovery" && entry.at.file === run.first.at.file &&
      record.seq === this.#nextSeq && record.prev === (this.#head ?? ZERO_HASH) &&
      record.event.torn_bytes === run.bytes && record.event.torn_sha256 === this.#hashOf(run);
  }

  #recover(entry: Entry, run: Run): void {
    this.#run = null;
    this.#commit(entry);
    if (this.#failure === null) this.#recoveries.push(run.first.at);
  }

  /** What is wrong with a record that stands after the last verified line, or null. */
  #problem(entry: Entry): string | null {
    const { record } = entry;
    if (record === null) return "does not parse as an audit record";
    if (this.#isGiven(entry)) return null;
    if (record.seq !== this.#nextSeq) return `seq is ${record.seq}, not ${this.#nextSeq}`;
    if (record.prev !== (this.#head ?? ZERO_HASH)) {
      return "prev is not the hash of the line before it";
    }
    const { event } = record;
    if (event.type === "recovery") return "a recovery of lines that do not stand before it";
    if (event.type === "accepted_break") {
      // Accepting a failure of head.json: in order, and naming itself (contracts 5.8).
      const itself = event.file === entry.at.file && event.line === entry.at.line;
      if (!itself || event.last_good !== record.prev) return "accepts a break that is not there";
    }
    return null;
  }

  /** Why `entry` is not the accepted break of a failure at `at`, or null (contracts 5.7). */
  #breakProblem(entry: Entry, at: Location): string | null {
    const { record } = entry;
    if (record?.event.type !== "accepted_break") return "not an accepted break";
    if (this.#isGiven(entry)) return null;
    const { event } = record;
    if (event.file !== at.file || event.line !== at.line) return "names another line";
    if (at.file === entry.at.file && at.line >= entry.at.line) return "names no line before it";
    if (record.prev !== entry.before) return "prev is not the hash of the line before it";
    if (event.last_good !== (this.#head ?? ZERO_HASH)) return "last_good is another line";
    if (record.seq < this.#nextSeq) return "seq is not above the last verified one";
    return null;
  }

  /** Whether `entry` accepts a failure of a file that this verifier does not read (contracts 5.7). */
  #isGiven(entry: Entry): boolean {
    const { record, before } = entry;
    return this.#resumed && record?.event.type === "accepted_break" && record.prev === before &&
      record.event.file < entry.at.file;
  }

  /** Takes the current failure back where `entry` accepts it; else `entry` counts for nothing. */
  #acceptBreak(entry: Entry): void {
    if (this.#failure === null || this.#breakProblem(entry, this.#failure) !== null) return;
    this.#failure = null;
    this.#commit(entry);
  }

  /** `entry` is the next good record, unless an anchor says otherwise. */
  #commit(entry: Entry): void {
    const { record } = entry;
    if (record === null) throw new Error("only a record can be verified");
    for (const { seq, hash } of this.#anchorList) {
      if (seq !== record.seq || hash === entry.hash) continue;
      return this.#fail(entry.at, `head: record ${record.seq} has another hash than the one noted`);
    }
    if (this.#headEntry?.record && record.time < this.#headEntry.record.time) {
      this.#clockWarnings.push(entry.at);
    }
    this.#records += 1;
    this.#nextSeq = record.seq + 1;
    this.#head = entry.hash;
    this.#headEntry = entry;
    this.#follow(record, entry.at);
  }

  /** Keeps the books of calls and breaks. */
  #follow({ seq, event }: Link, at: Location): void {
    switch (event.type) {
      case "decision":
        if (event.outcome.outcome === "ask") this.#asked.add(seq);
        if (event.outcome.outcome === "allowed") this.#running.add(seq);
        break;
      case "approval":
        // The decision itself may stand in an accepted stretch: the approval names it by its seq.
        this.#asked.delete(event.decision);
        if (event.outcome.outcome !== "denied") this.#running.add(event.decision);
        break;
      case "result":
        this.#running.delete(event.decision);
        break;
      case "accepted_break":
        this.#acceptedBreaks.push(at);
        break;
      case "recovery":
        break;
    }
  }

  /** A chain cannot show that its end is missing: the anchors do (contracts 5.8). */
  #checkAnchorsReached(): void {
    const missing = this.#anchorList.find(({ seq }) => seq >= this.#nextSeq);
    if (!missing) return;
    const after = this.#headEntry?.at ?? { file: this.#file || "head.json", line: 0 };
    const at = this.#tornTail ?? { file: after.file, line: after.line + 1 };
    this.#fail(at, `head: the log ends before record ${missing.seq}`);
  }

  /** Of several failures the first one stays. */
  #fail(at: Location, what: string): void {
    this.#failure ??= { ...at, what };
  }
}
