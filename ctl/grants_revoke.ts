/** `bxctl grants revoke GRANT`: ends a grant that `approve --remember` wrote (decision 111). */
import { MAX_GRANT_BYTES, readGrant } from "../broker/grant_rules.ts";
import { display } from "../proto/escape.ts";
import type { GrantId } from "../proto/ids.ts";
import { fromUtf8 } from "../proto/text.ts";
import { type Asking, confirm } from "./confirm.ts";
import { grantBytes, removeGrant } from "./grant_writing.ts";
import { answerJson, answerLines, type Io, type Status } from "./io.ts";
import { changedMeanwhile, noSuchGrant, notRemembering } from "./notices.ts";

/** Shows the grant, asks, and removes its file. Every grant that the owner wrote is refused and stays. */
export async function revokeGrant(
  directory: string,
  id: GrantId,
  asking: Asking,
  io: Io,
): Promise<Status> {
  const file = `${id}.toml`;
  const bytes = grantBytes(directory, id);
  if (bytes === null) throw noSuchGrant(id);
  const grant = bytes.length > MAX_GRANT_BYTES ? [] : readGrant(file, bytes);
  // What cannot be read is somebody's edit.
  if (Array.isArray(grant) || grant.remembered === null) throw notRemembering(id, directory);
  if (!asking.json) {
    const lines = (fromUtf8(bytes) ?? "").trimEnd().split("\n");
    const shown = lines.map((line) => `    ${display(line)}`.trimEnd());
    const head = `the grant ${display(`${directory}/${file}`)}:`;
    answerLines(io, [head, ...shown]);
  }
  await confirm(`remove it? [y/N] `, asking, io, [`the grant ${id} stays`]);
  if (!removeGrant(directory, id, bytes)) throw changedMeanwhile(id);
  if (asking.json) answerJson(io, { grant: id, revoked: true });
  else io.answer(`revoked ${id}\n`);
  return 0;
}
