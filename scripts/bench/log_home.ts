/** A home with an audit log of many records, whose newest file is small, and the programs that read it. */
import { type Ran, runCtl } from "../support/ctl.ts";
import { BenchHome } from "./figures.ts";
import { writeLog } from "./log.ts";

/** Records of the newest file. */
const NEWEST = 10;
/** How many older files share the other records. */
const OLDER = 4;

/** `older`: records in older files; 0 for none of these. */
export class LogHome extends BenchHome {
  readonly records: number;
  /** The files of the log, in order. */
  readonly files: readonly string[];

  constructor(older: number) {
    super();
    const share = Math.floor(older / OLDER);
    const sizes = older === 0 ? [] : [older - (OLDER - 1) * share, ...Array(OLDER - 1).fill(share)];
    this.records = older + NEWEST;
    this.files = writeLog(`${this.path}/audit`, [...sizes, NEWEST]);
  }

  /** `bxctl audit verify`, which must find the log whole. */
  async verify(): Promise<void> {
    const { code, stdout, stderr }: Ran = await runCtl({ home: this.path }, "audit", "verify");
    if (code !== 0 || !stdout.startsWith(`audit: ok, ${this.records} records`)) {
      throw new Error(`bxctl audit verify ended with ${code}: ${stdout}${stderr}`);
    }
  }
}
