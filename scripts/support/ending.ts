/** The signals that ask a script to end, so that it can stop what it started. */
import { watchStarter } from "./starter.ts";

/** Each with its number: a script that it ends exits with 128 and the number. */
const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;

/** The exit status that the first signal asks for. Listens until it is disposed of. */
export class Ending implements Disposable {
  readonly asked: Promise<number>;
  readonly #dispose: () => void;

  constructor() {
    const { promise, resolve } = Promise.withResolvers<number>();
    const listeners = Object.entries(SIGNALS).map(([signal, number]) =>
      [signal as keyof typeof SIGNALS, () => resolve(128 + number)] as const
    );
    for (const [signal, listener] of listeners) Deno.addSignalListener(signal, listener);
    const unwatch = watchStarter(() => resolve(128 + SIGNALS.SIGTERM));
    this.asked = promise;
    this.#dispose = () => {
      unwatch();
      for (const [signal, listener] of listeners) Deno.removeSignalListener(signal, listener);
    };
  }

  [Symbol.dispose](): void {
    this.#dispose();
  }
}
