/** Service units as tests read them, and a daemon as it starts. */

/** The settings of a unit by name, each with its values in order. */
export type Unit = ReadonlyMap<string, readonly string[]>;

export function parseUnit(content: string): Unit {
  const unit = new Map<string, string[]>();
  for (const line of content.replaceAll("\\\n", " ").split("\n")) {
    const setting = /^([A-Za-z]+)=(.*)$/.exec(line);
    if (setting?.[1] === undefined || setting[2] === undefined) continue;
    unit.set(setting[1], [...unit.get(setting[1]) ?? [], setting[2].trim()]);
  }
  return unit;
}

/** The words of all values of `setting`. */
export function words(unit: Unit, setting: string): string[] {
  return (unit.get(setting) ?? []).flatMap((value) => value.split(/\s+/)).filter((word) => word);
}

/** What a daemon says until it is ready or ends. */
export async function untilReady(stderr: ReadableStream<Uint8Array>): Promise<string> {
  let said = "";
  const reader = stderr.pipeThrough(new TextDecoderStream()).getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    said += read.value;
    if (said.includes("ready")) break;
  }
  await reader.cancel();
  return said;
}
