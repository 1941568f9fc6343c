/** Leaves a socket at `path` that nobody listens on, as a killed daemon does. */
export function leaveSocket(path: string): void {
  const listener = Deno.listen({ transport: "unix", path: `${path}.new` });
  // Closing it removes what stands at its first name.
  Deno.renameSync(`${path}.new`, path);
  listener.close();
}
