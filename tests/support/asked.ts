/** A real brokerd whose calls wait for their owner, and bxctl beside it. */
import assert from "node:assert/strict";
import { type Broker, frame, namesOf, RawClient, startBroker, TempHome } from "./broker.ts";
import { type GrantFields, grantFile } from "./grants.ts";

/** A call under way. */
interface Waiting {
  readonly client: RawClient;
  readonly approval: number;
}

/** brokerd in a home of its own. Dispose of it: then its calls have ended too. */
export class AskingBroker implements AsyncDisposable {
  readonly home: TempHome;
  readonly broker: Broker;
  readonly #clients: RawClient[] = [];
  #calls = 0;

  private constructor(home: TempHome, broker: Broker) {
    this.home = home;
    this.broker = broker;
  }

  static async start(grants: Readonly<Record<string, GrantFields>>): Promise<AskingBroker> {
    const home = new TempHome();
    try {
      for (const [id, fields] of Object.entries(grants)) {
        Deno.writeTextFileSync(`${home.layout.grants}/${id}.toml`, grantFile(fields));
      }
      return new AskingBroker(home, await startBroker(home));
    } catch (error) {
      home[Symbol.dispose]();
      throw error;
    }
  }

  /** The home's path. */
  get path(): string {
    return this.home.home;
  }

  /** Writes the grant `id` anew. */
  put(id: string, fields: GrantFields): void {
    Deno.writeTextFileSync(this.file(id), grantFile(fields));
  }

  file(id: string): string {
    return `${this.home.layout.grants}/${id}.toml`;
  }

  /** The names in the grants directory. */
  names(): string[] {
    return namesOf(this.home.layout.grants);
  }

  /** Begins a call, and gives its first answer: how it came out, or the number under which it waits. */
  async call(tool: string, args: object, session = "s1"): Promise<string | Waiting> {
    const client = await RawClient.connect(this.home.layout.brokerSocket);
    this.#clients.push(client);
    const ids = { session, call: `c${this.#calls += 1}`, tool };
    await client.send(frame("tool_request", { ...ids, arguments: JSON.stringify(args) }));
    const answer = await client.next();
    assert.ok(answer?.kind === "tool_response", JSON.stringify(answer));
    const { body } = answer;
    if (body.status === "pending_approval") return { client, approval: body.approval };
    return wordsOf(body);
  }

  /** Begins a call that must wait. */
  async asks(tool: string, args: object, session = "s1"): Promise<number> {
    return (await this.waits(tool, args, session)).approval;
  }

  async waits(tool: string, args: object, session = "s1"): Promise<Waiting> {
    const answer = await this.call(tool, args, session);
    assert.ok(typeof answer !== "string", `${answer}, and was not asked about`);
    return answer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client[Symbol.dispose]();
    await this.broker[Symbol.asyncDispose]();
    this.home[Symbol.dispose]();
  }
}

/** How a waiting call came out. */
export async function endOf({ client }: Waiting): Promise<string> {
  const answer = await client.next();
  assert.ok(answer?.kind === "tool_response" && answer.final, JSON.stringify(answer));
  return wordsOf(answer.body);
}

/** `ran` for what the runner was asked for: without one it says so. */
function wordsOf(body: object): string {
  if ("reason" in body) return String(body.reason);
  if ("message" in body && body.message === "the runner arrives in M3b") return "ran";
  return JSON.stringify(body);
}
