/** A grant's hint on its way to the model, through the real brokerd and loopd; and without one, the plain words. */
import assert from "node:assert/strict";
import { prepareHome, TempHome } from "../../scripts/support/home.ts";
import { Stack } from "../../scripts/support/stack.ts";
import { runCtl } from "../support/ctl.ts";
import { type GrantFields, grantFile } from "../support/grants.ts";
import { calling, FakeLlama, saying } from "../support/llama.ts";

Deno.test("the model is told the hint of the grant that denied, and else the words alone", async () => {
  using temp = new TempHome("test", false);
  const home = prepareHome(temp.path);
  const reading = (path: string) => calling("read_file", { path });
  await using llama = new FakeLlama(
    ...[reading("/k/a"), saying("one")],
    ...[reading("/q/a"), saying("two")],
  );
  const put = (id: string, fields: GrantFields) =>
    Deno.writeTextFileSync(
      `${home.path}/grants/${id}.toml`,
      grantFile({ mode: "deny", ...fields }),
    );
  const hint = 'Keys stay here.\nAsk for "/k/public".';
  put("keys", { hint, constraints: { paths: ["/k"] } });
  put("quiet", { constraints: { paths: ["/q"] } });
  await using stack = new Stack({ home, llama: llama.url });
  await stack.start();
  const told = async (say: string) => {
    const { code, stderr } = await runCtl(home.path, ["chat", "--say", say]);
    assert.equal(code, 0, stderr);
    const { role, content } = llama.requests.at(-1)?.messages.at(-1) ?? assert.fail();
    assert.equal(role, "tool");
    return content;
  };
  assert.equal(await told("keys"), `Denied: a grant forbids this call.\nYour owner says: ${hint}`);
  assert.equal(await told("quiet"), "Denied: a grant forbids this call.");
  temp.done();
});
