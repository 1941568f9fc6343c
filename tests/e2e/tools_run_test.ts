/** Allowed calls do what they say: the real brokerd, each tool in a real container, and the log of it. */
import assert from "node:assert/strict";
import { recordsIn } from "../../scripts/support/story.ts";
import { sha256 } from "../../proto/ids.ts";
import { utf8 } from "../../proto/text.ts";
import { startBroker } from "../support/broker.ts";
import {
  callTool,
  contentOf,
  noContainerOf,
  runCommand,
  toolHome,
  toolTest,
} from "../support/containers.ts";
import { GrantPlace } from "../support/image.ts";
import { tomlText } from "../support/grants.ts";

toolTest(
  "a file is read, one is written, a command runs, and each is in the log before its answer",
  async () => {
    using home = await toolHome();
    using place = new GrantPlace();
    const notes = place.directory("my notes");
    Deno.writeTextFileSync(`${notes}/a.md`, "zwölf\n");
    const paths = `[constraints]\npaths = [${tomlText(notes)}]\n`;
    home.grant("read", `tool = "read_file"\nmode = "auto"\n${paths}`);
    home.grant("write", `tool = "write_file"\nmode = "auto"\n${paths}`);
    home.grant("run", `tool = "shell"\nmode = "auto"\n${paths}`);
    home.grant("run-bare", 'tool = "shell"\nmode = "auto"\n');
    await using broker = await startBroker(home);
    assert.equal(await contentOf(home, "read_file", { path: `${notes}/a.md` }), "zwölf\n");
    const draft = `${notes}/b.md`;
    assert.equal(
      await contentOf(home, "write_file", { path: draft, content: "neu\n" }),
      `wrote ${draft}`,
    );
    assert.equal(Deno.readTextFileSync(draft), "neu\n");
    assert.deepEqual(await runCommand(home, "cat b.md; echo oh >&2; exit 3", notes), {
      exit: 3,
      stdout: "neu\n",
      stderr: "oh\n",
    });
    // Without a directory nothing of the machine is there.
    const bare = await runCommand(home, `ls ${JSON.stringify(notes)}`);
    assert.equal(bare.exit, 2);
    assert.match(bare.stderr, /No such file or directory/);

    const denied = await callTool(home, "read_file", { path: "/etc/passwd" });
    assert.deepEqual(denied, { status: "denied", reason: "no_grant" });
    const events = recordsIn(home.layout.audit).map(({ event }) => event);
    assert.deepEqual(events.map(({ type }) => type), [
      ...["decision", "result", "decision", "result", "decision", "result", "decision", "result"],
      "decision",
    ]);
    const [, read] = events;
    assert(read?.type === "result");
    assert.deepEqual([read.bytes, read.sha256], [7, sha256(utf8("zwölf\n"))]);
    await noContainerOf(home);
    await broker.stop();
    assert.equal(broker.stderr.includes("runbook"), false, broker.stderr);
  },
);

toolTest(
  "a tool that fails says why; a path that is not there, or leads elsewhere, runs nothing",
  async () => {
    using home = await toolHome();
    using place = new GrantPlace();
    const notes = place.directory("notes");
    const secret = place.directory("secret");
    Deno.writeTextFileSync(`${secret}/key`, "secret\n");
    Deno.symlinkSync(secret, `${place.path}/link`);
    Deno.writeFileSync(`${notes}/binary`, new Uint8Array([0xff, 0xfe]));
    const grant = (id: string, path: string) =>
      home.grant(
        id,
        `tool = "read_file"\nmode = "auto"\n[constraints]\npaths = [${tomlText(path)}]\n`,
      );
    grant("notes", notes);
    grant("link", `${place.path}/link`);
    grant("gone", `${place.path}/gone`);
    grant("comma", `${place.path}/a,b`);
    await using broker = await startBroker(home);
    const failure = async (path: string) => {
      const answer = await callTool(home, "read_file", { path });
      assert(answer.status === "failed", JSON.stringify(answer));
      return answer.message;
    };
    assert.equal(await failure(`${notes}/none`), `${notes}/none does not exist`);
    assert.equal(await failure(`${notes}/binary`), "the file is not UTF-8 text");
    assert.equal(await failure(notes), `${notes} is a directory`);
    assert.match(await failure(`${place.path}/link/key`), /leads through a symbolic link/);
    assert.equal(
      await failure(`${place.path}/gone/x`),
      `the granted path ${place.path}/gone does not exist`,
    );
    assert.match(await failure(`${place.path}/a,b/x`), /has a comma/);
    assert(broker.stderr.includes("see docs/runbook.md#grant-not-mounted"), broker.stderr);
    // Where a link was, the directory itself is read: it was the link that was refused.
    grant("secret", secret);
    assert.equal(await contentOf(home, "read_file", { path: `${secret}/key` }), "secret\n");
    const results = recordsIn(home.layout.audit).map(({ event }) => event)
      .filter((event) => event.type === "result");
    // What did not run has shown the session nothing.
    assert.deepEqual(results.map(({ class: seen }) => seen), [
      ...["private", "private", "private", "public", "public", "public", "private"],
    ]);
  },
);
